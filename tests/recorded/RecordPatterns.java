import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.*;
import java.util.regex.*;

/** Asks Java which names each expression matches as a whole. Prints one JSON object a line; null is no expression. */
public class RecordPatterns {
    static final String[] PATTERNS = {
        ".*", "foo.*", "foo.*|bar.*", "(?i)foo|bar", "a(?i)b|c", "x(a(?i)b|c)d", "(?i:foo)Bar", "(?-i)foo",
        "\\Qa.b\\E.*", "\\Qa.b", "\\p{Alpha}+", "\\p{Alnum}[\\p{Digit}-]*", "[^\\p{Upper}]+", "\\P{Digit}+", "\\d+",
        "\\w+", "\\s*x", "mm2.*\\.internal", "__.*", ".*[-.]internal", ".*[\\-\\.]internal", "[a-c&&[b]]", "[a[bc]]+",
        "[]a]+", "[^]a]+", "a++b", "a*+", "(?>a|ab)c", "(?<n>a)\\k<n>", "(a)\\1", "a{2}", "a{2,}", "a{,2}", "a{1|3}",
        "{a}", "*", "+a", "a**", "(a", "a)", "[a", "[", "\\", "\\z", "a\\z", "a\\Z", "\\Aa$", "^a$", "[a-]+", "[-a]+",
        "[+--]+", "[a\\-z]+", "[~-]+", "a||b", "", "[.]x", "[a|b]+", "[a^]+", "\\x41", "\\u0041", "\\x{41}", "\\0101",
        "\\cA", "\\e", "\\h", "\\R", "\\pL+", "\\p{L}+", "\\p{IsAlphabetic}+", "(?x)a b", "(?u)a", "(?s).", "(?m)^a$",
        "(?is)A.", "foo\\.bar", "foo\\-bar", "a#b", "(?=a)a", "(?!b)a", "(?<=a)b", "(?<!a)b", "[\\Q-^\\E]+",
        "[a-\\d]", "[z-a]", "\\p{Punct}+", "\\ba\\b", "\\Ba", "[\\w.-]+", "[a--]", "((a))|b", "(?:a|b)c", "a.?b",
        "\\N", "\\v", "[\\v]", "[a~~b]+", "[a||b]+", "[&]+", "[a&b]+", "\\y", "(?P<x>a)", "(?#c)a", "[[:alpha:]]",
        "a{3}{2}", "a?+b", "a{0}", "a{99999999999}", "(?i)[a-c]+", "[ab]+?", "\\.\\.", "a\\ b", "\\_a", "a(?i)",
        "(?i)", "((?i)a)B", "((?i)a|b)B|C", "(?i)a(?-i)b",
        "[\\w-.]+", "[\\d-x]+", ".*(?<!-changelog|-repartition)", "a\\h*b", "\\H+", "\\V+", "[\\h\\d]+", "[a-z&&[^b-d]]+",
        "[a-z&&[def]&&[e-g]]+", "[^a&&[ab]]+", "[a-f&&b-d&&c]", "[a&&]", "[a[^b]&&[bc]]", "(?x) a # b\n b", "(?U)\\w+", "(?iu)\u00c9",
        "(?d)a.", "\\p{IsLatin}+", "\\p{InGreek}", "\\p{sc=Greek}*", "\\p{javaLowerCase}+", "\\P{Lu}+", "[\\p{L}&&[^\\p{Lu}]]+",
        "(?<=foo[-.]|bar)internal", "(?<!a{1,3})b", "(?<=a+)b", "(?<=a*b)c", "(?<=(?:ab)*)c", "(?<=(?:abc)*)x", "(?:a|ab){2}+c",
        "(?>a|ab)*+c", "a{2}+a", "(a)?+b", "(?:a|b)*?c", "\\x{10ffff}", "\\x{110000}", "\\u00", "\\ca", "\\c", "\\E", "a\\Qb", "\\N{DIGIT ONE}2",
        "\\N{NONE}", "\\X", "a\\b{g}b", "\\G.b", "(?<a>a)(?<a>b)", "\\k<a>", "\\2(a)", "(a)\\10", "(?i-s:a)", "(?i-m-s)a", "a|*", "(?<=)a",
        "[a-c-e]+", "[\\Q[\\E]", "[&&a]", "[&&&a]", "[a&&&&b]", "\\p", "\\p{", "\\p{IsNothing}", "\\07", "\\08", "\\e+", "\\_a"
    };
    static final String[] NAMES = {
        "", "a", "b", "A", "B", "ab", "aB", "AB", "abc", "abC", "foo", "FOO", "foo.x", "fooBar", "FOOBar", "FOObar",
        "bar", "BAR", "c", "C", "xabd", "xaBd", "xcd", "xCd", "a.b", "a.bc", "aXb", "-", "]", "^", "&", "|", "~",
        "--", "a-z", "12", "a1-2", "x", " x", "mm2-x.internal", "mm2.internal", "foo-internal", "foo.internal", "__c",
        "_a", "aa", "aaa", "aab", "ac", "\n", "a\n", "b\n", "\u00e9", "\u0130", "k", "\u212a", "#", "a#b", "foo-bar",
        "foo\\bar", "foo.bar", "!?", "a b", "aBC", "Bc", "bB", "AaB", "\u0001", "\u001b", "\u000b", "..", "a}", "{a}",
        "a,b", "+", ",", "a&b", ".x", "aaaaaa", "a-changelog", "a-repartition", "a-changelogs", "team-a.x_y-1", "a \t b",
        "ef", "def", "\u00c9", "\u03b1", "fooXinternal", "aabb", "abac", "12x-"
    };

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        json.getFactory().configure(com.fasterxml.jackson.core.JsonGenerator.Feature.ESCAPE_NON_ASCII, true);
        for (String pattern : PATTERNS) {
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("pattern", pattern);
            List<String> yes = new ArrayList<>();
            List<String> no = new ArrayList<>();
            try {
                Pattern compiled = Pattern.compile(pattern);
                for (String name : NAMES) (compiled.matcher(name).matches() ? yes : no).add(name);
                row.put("matches", yes);
                row.put("matches_not", no);
            } catch (PatternSyntaxException wrong) {
                row.put("matches", null);
            }
            System.out.println(json.writeValueAsString(row));
        }
    }
}
