"""The program that the JVM runs for each batch: a class in Java that Spark's own compiler compiles.

So a batch is a single call. Through py4j each step would be a call of its own, and records would be copied twice more.
"""

from __future__ import annotations

from typing import Any

MOST_KEPT_BYTES = 16 << 20
"""The result of a batch above this size is freed at once on both sides; otherwise it would stay until the flow ends."""

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
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

public final class Evaluator {
    private static final long MOST_KEPT = %dL;
    private static final InternalRow LEFT_OUT = new GenericInternalRow(1);

    private final FileInputStream there;
    private final RandomAccessFile back;
    private final Object[] steps;
    private final StructType made;
    private ArrowWriter writer;
    private volatile int at;

    public Evaluator(String there, String back, Object[] steps, StructType made) throws Exception {
        this.there = new FileInputStream(there);
        this.back = new RandomAccessFile(back, "rw");
        this.steps = steps;
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
                writer.write(made((InternalRow) rows.next()));
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

    private InternalRow made(InternalRow row) {
        for (Object step : steps) {
            if (!(step instanceof BasePredicate)) {
                row = (InternalRow) ((scala.Function1) step).apply(row);
            } else if (!((BasePredicate) step).eval(row)) {
                return LEFT_OUT;
            }
        }
        return row;
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
    """Compile the class, for `new_evaluator`; once for each JVM."""
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_SOURCE % MOST_KEPT_BYTES)
    return compiler.getClassLoader().loadClass(_NAME)


def new_evaluator(gateway: Any, found: Any, there: str, back: str, steps: list[Any], made: Any) -> Any:
    """An evaluator that reads rows from the file `there`, and writes the results of the steps to `back`.

    Both are streams of Arrow. A row that fails a predicate among the steps becomes null, so that `back` has as many
    rows as `there`. `evaluate()` returns the number of bytes that the evaluator has written, `at()` the number of the
    row in work.
    """
    constructor = found.getConstructors()[0]
    return constructor.newInstance(_array(gateway, [there, back, _array(gateway, steps), made]))


def _array(gateway: Any, values: list[Any]) -> Any:
    array = gateway.new_array(gateway.jvm.java.lang.Object, len(values))
    for at, value in enumerate(values):
        array[at] = value
    return array
