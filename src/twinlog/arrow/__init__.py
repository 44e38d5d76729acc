"""Record batches become Arrow record batches, a whole fetch at once, and rows become record batches.

The package needs numpy and pyarrow; a copier without a transform runs without this package.
"""
