"""Java's regular expressions (`java.util.regex` of Java 17), read by their own grammar and matched by `regex`."""
