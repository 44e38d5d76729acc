"""Record batches become Arrow record batches, a whole fetch at once, and rows become record batches.

The package needs numpy and pyarrow; only a copier with a transform or with a proof imports the
package.
"""
