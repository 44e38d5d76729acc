import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.regex.*;
import java.util.stream.*;

/**
 * Reads lines of an expression and names, in Base64 with commas between. Prints for each line "refused", or for each name
 * whether it matches, and what is found inside of it: groups in Base64, "-" for one that took no part.
 */
public class MatchPatterns {
    static final int MOST_CHARS = 100_000;

    /** A text that ends what takes too long. */
    record Counted(String text, int[] read) implements CharSequence {
        Counted(String text) { this(text, new int[1]); }
        public char charAt(int at) {
            if (++read[0] > MOST_CHARS) throw new IllegalStateException();
            return text.charAt(at);
        }
        public int length() { return text.length(); }
        public CharSequence subSequence(int begin, int end) { return text.substring(begin, end); }
        public String toString() { return text; }
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] texts = line.split(",", -1);
            for (int at = 0; at < texts.length; at++)
                texts[at] = new String(Base64.getDecoder().decode(texts[at]), StandardCharsets.UTF_8);
            out.println(answer(texts));
        }
        out.flush();
    }

    static String answer(String[] texts) {
        Pattern pattern;
        try {
            pattern = Pattern.compile(texts[0]);
        } catch (PatternSyntaxException wrong) {
            return "refused";
        }
        return Arrays.stream(texts).skip(1).map(name -> answer(pattern, name)).collect(Collectors.joining(","));
    }

    static String answer(Pattern pattern, String name) {
        try {
            boolean matches = pattern.matcher(new Counted(name)).matches();
            Matcher finder = pattern.matcher(new Counted(name));
            if (!finder.find()) return matches + " none";
            return matches + " " + IntStream.rangeClosed(0, finder.groupCount())
                .mapToObj(group -> finder.group(group) == null ? "-" : encoded(finder.group(group)))
                .collect(Collectors.joining(" "));
        } catch (RuntimeException | StackOverflowError failed) {
            return "failed";
        }
    }

    static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
