import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Constructor;
import java.util.*;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;

/**
 * What Kafka reads out of lines for `sasl.jaas.config`: some that are written here, and as many drawn ones as the first
 * argument says, by the seed that a second one may name. Prints one JSON object a line; without `module` a line is
 * refused.
 */
public class RecordJaas {
    static final String[] LINES = {
        "", ";", "M", "M required", "M required;", "M required;;", "M required; N required;", "M REQUIRED a=b;",
        "M optional a=\"b\" ;", "M sufficient\na='b'\n;\n", "M requisite a=b; // end", "M required a=b /* c */ ;",
        "M required a=\"x\\tY\\101\";", "M required a=\"\\0\\7\\08\\377\\477\\8\\a\\b\\f\\n\\r\\v\\x\\\"\\\\\\'\";",
        "M required a='\\'\"';", "M required a=\"'\";", "M required a=\"b\nc=d;", "M required a=\"b\\\nc\";",
        "M required a=\"b\r c=d;", "M required a=\"b", "M required a=\"b\\", "M required a=b/c;", "M required a=\"b/c\";",
        "M required a=b//c\n;", "M required a=b/*c*/;", "M required a=b/*/;", "M required a=b/*/*/;",
        "M required a=b/* \n*/;", "M required a=b/* *\n/;", "M required a=b/*;", "M required a=b/c\n;", "/ c\nM required;",
        "M required a==b;", "M required a=b=c;", "M required a=;", "M required a=\"\";", "M required a b;",
        "M required a=\";\";", "M required a=\";\"", "M required \"a\"=\"b\" \"a\"=\"c\";", "\"M\" \"required\" a=b;",
        "M required a=\u00e4\u00f6;", "M required a=\"\u20ac\ud83d\ude00\";", "M required a=\u20ac\ud83d\ude00b;",
        "M required a=x\u0080y;", "M required a=x\u0081y;", "M required a=x\u00a0y;", "M required a=\"x\u0085y\";",
        "M required a=b\u2028c;", "M required a=b\u001fc=d;", "M required a=1.5 b=-2 c=$x,{}[]():@%;",
        "M required a=\"b\"c=\"d\";", "M required a=b\"c\"=d;", "=M required;", "M = required;", "M required =\"b\";",
        "M required a=\"\\\"\\\\=;, \";", "M wanted a=b;", "M required a=\"\\1\\12\\123\\1234\\400\\79\";"
    };
    static final String[] PIECES = {
        "\\", "\\\\", "\\\"", "\\'", "\"", "'", "0", "1", "3", "4", "7", "8", "\\1", "\\10", "\\101", "\\377", "\\477",
        "\\t", "\\n", "\\r", "\\a", "\\b", "\\f", "\\v", "\\x", "t", "n", "a", "=", ";", "/", "//", "/*", "*/", "*",
        "\n", "\r", "\r\n", "\t", " ", "\u00e4", "\u20ac", "\ud83d\ude00", "\u0080", "\u0085", "\u00a0", "\u0100", "$", ","
    };

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        json.getFactory().configure(com.fasterxml.jackson.core.JsonGenerator.Feature.ESCAPE_NON_ASCII, true);
        for (String line : LINES) System.out.println(json.writeValueAsString(read(line)));
        Random random = new Random(arguments.length > 1 ? Long.parseLong(arguments[1]) : 5);
        for (int number = 0; number < Integer.parseInt(arguments[0]); number++)
            System.out.println(json.writeValueAsString(read(drawn(random))));
    }

    static String drawn(Random random) {
        StringBuilder text = new StringBuilder();
        for (int count = random.nextInt(9); count > 0; count--) text.append(PIECES[random.nextInt(PIECES.length)]);
        return switch (random.nextInt(4)) {
            case 0 -> "M required a=" + text + ";";
            case 1 -> "M required " + text + " a='" + text + "';";
            case 2 -> "M" + text + " required" + text + ";";
            default -> "M required a=\"" + text + "\" b=c;";
        };
    }

    static Map<String, Object> read(String line) throws Exception {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("line", line);
        Constructor<?> made = Class.forName("org.apache.kafka.common.security.JaasConfig")
            .getDeclaredConstructor(String.class, String.class);
        made.setAccessible(true);
        AppConfigurationEntry[] entries;
        try {
            entries = ((Configuration) made.newInstance("c", line)).getAppConfigurationEntry("c");
        } catch (java.lang.reflect.InvocationTargetException refused) {
            return row;
        }
        // More than one is refused by JaasContext.
        if (entries.length != 1) return row;
        row.put("module", entries[0].getLoginModuleName());
        row.put("flag", entries[0].getControlFlag().toString().replaceAll(".*: ", ""));
        Map<String, Object> options = new HashMap<>(entries[0].getOptions());
        // What has a sign in the place of its name is no option that anybody asks for.
        options.remove(null);
        row.put("options", new TreeMap<>(options));
        return row;
    }
}
