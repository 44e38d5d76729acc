"""What the JVM runs for each batch: a class in Java that Spark's own compiler compiles, so that a batch is one call.

Through py4j each step would be a call of its own, and records would be copied twice more.
"""

from __future__ import annotations

from typing import Any

MOST_KEPT_BYTES = 16 << 20
"""What one batch made of more than this does not stay in memory until the flow ends, on either side."""

_NAME = "twinlog.Evaluator"
_SOURCE = """
package twinlog;

import java.io.FileInputStream;
import java.io.RandomAccessFile;
import java.nio.channels.FileChannel;
import java.util.Iterator;
import java.util.List;
import org.apache.arrow.vector.ValueVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

public final class Evaluator {
    private static final long MOST_KEPT = %dL;

    private final FileInputStream there;
    private final RandomAccessFile back;
    private final scala.Function1 projection;
    private final StructType made;
    private ArrowWriter writer;
    private volatile int at;

    public Evaluator(String there, String back, scala.Function1 projection, StructType made) throws Exception {
        this.there = new FileInputStream(there);
        this.back = new RandomAccessFile(back, "rw");
        this.projection = projection;
        this.made = made;
    }

    /** The row that is evaluated; for another thread, while that does not end. */
    public int at() {
        return at;
    }

    /** Evaluates the rows that are there, and returns how many bytes it has written back. */
    public long evaluate() throws Exception {
        ArrowStreamReader reader = new ArrowStreamReader(there.getChannel().position(0), ArrowUtils.rootAllocator());
        try {
            reader.loadNextBatch();
            VectorSchemaRoot given = reader.getVectorSchemaRoot();
            List vectors = given.getFieldVectors();
            ColumnVector[] columns = new ColumnVector[vectors.size()];
            for (int at = 0; at < columns.length; at++) {
                columns[at] = new ArrowColumnVector((ValueVector) vectors.get(at));
            }
            if (writer == null) {
                writer = ArrowWriter.create(made, "UTC", true, false);
            } else {
                // What a batch that failed has left.
                writer.reset();
            }
            Iterator rows = new ColumnarBatch(columns, given.getRowCount()).rowIterator();
            at = 0;
            while (rows.hasNext()) {
                writer.write((InternalRow) projection.apply(rows.next()));
                at++;
            }
            writer.finish();
        } finally {
            reader.close(false);
        }
        FileChannel channel = back.getChannel();
        channel.position(0L);
        ArrowStreamWriter stream = new ArrowStreamWriter(writer.root(), null, channel);
        stream.start();
        stream.writeBatch();
        stream.end();
        long bytes = channel.position();
        if (bytes > MOST_KEPT) {
            forget();
        }
        return bytes;
    }

    public void close() throws Exception {
        forget();
        there.close();
        back.close();
    }

    private void forget() {
        if (writer != null) {
            writer.root().close();
            writer = null;
        }
    }
}
"""


def compile_evaluator(gateway: Any) -> Any:
    """The class, for `new_evaluator`; once for each JVM."""
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_SOURCE % MOST_KEPT_BYTES)
    return compiler.getClassLoader().loadClass(_NAME)


def new_evaluator(gateway: Any, found: Any, there: str, back: str, projection: Any, made: Any) -> Any:
    """An evaluator that reads rows from the file `there`, and writes what a projection makes of them to `back`.

    Both are streams of Arrow. `evaluate()` returns how many bytes it has written, `at()` which row it is at.
    """
    given = gateway.new_array(gateway.jvm.java.lang.Object, 4)
    for at, value in enumerate((there, back, projection, made)):
        given[at] = value
    constructor = found.getConstructors()[0]
    return constructor.newInstance(given)
