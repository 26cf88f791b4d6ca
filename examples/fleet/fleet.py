"""Counts of a fleet on Apache Spark: what `hugealign profile reduce` and `merge` make on one machine, byte for byte.

``spark-submit fleet.py INPUT OUTPUT [EXE...]``: INPUT is a directory of counts or profiles, of any file system that
Spark reads (``s3a://``, ``hdfs://``); profiles are reduced with EXE, files of all machines.  OUTPUT becomes
``all.counts``, ``counts.parquet`` and ``skipped.txt``.
"""

import operator
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import repeat

from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAGIC = b"# hugealign.counts/"
SKIPPED = b""  # instead of a build: a file that cannot be read, by name
FIELDS = (("section", BinaryType()), ("key", BinaryType()), ("count", LongType()))

Row = tuple[tuple[bytes, bytes], int]


def counted(files: Iterable[tuple[str, bytes]], binaries: list[str]) -> Iterator[Row]:
    """Yield what some files count, added up."""
    from hugealign.errors import HugealignError
    from hugealign.profile import counts, merge, reduce

    total: dict[bytes, dict[bytes, int]] = {}
    for path, data in files:
        try:
            with tempfile.NamedTemporaryFile() as file:
                file.write(data)
                file.flush()
                profile = binaries and not merge.file_bytes(file.name).startswith(MAGIC)
                result = (
                    reduce.reduce_profiles([file.name], binaries).counts
                    if profile
                    else counts.parse(merge.file_bytes(file.name))
                )
        except HugealignError:
            total.setdefault(SKIPPED, {})[path.encode()] = 1
            continue
        for head, mine in result.items():
            known = total.setdefault(head, {})
            # As `merge` does it: no line of it is Python.
            known.update(zip(mine, map(operator.add, map(known.get, mine, repeat(0)), mine.values()), strict=True))
    for head, mine in total.items():
        yield from (((head, key), count) for key, count in mine.items())


def main() -> None:
    """Merge a directory."""
    source, target, *binaries = sys.argv[1:]
    spark = SparkSession.builder.appName("hugealign fleet").getOrCreate()
    with tempfile.TemporaryDirectory() as work:
        package = shutil.make_archive(os.path.join(work, "hugealign"), "zip", ROOT, "hugealign")
        spark.sparkContext.addPyFile(package)
        sys.path.insert(0, ROOT)
        from hugealign.profile import counts

        most = counts.MOST
        rows = (
            spark.sparkContext.binaryFiles(source, int(os.environ.get("FLEET_PARTITIONS", "64")))
            .mapPartitions(lambda files: counted(files, binaries))
            .reduceByKey(lambda a, b: a + b, 8)
            .map(lambda row: (bytearray(row[0][0]), bytearray(row[0][1]), min(row[1], most)))
            .cache()
        )
        schema = StructType([StructField(name, kind, nullable=False) for name, kind in FIELDS])
        table = spark.createDataFrame(rows, schema).write.mode("overwrite")
        table.parquet(os.path.join(target, "counts.parquet"), compression="gzip")  # in Java itself, everywhere
        merged: counts.Counts = {}
        for head, key, count in rows.toLocalIterator():
            merged.setdefault(bytes(head), {})[bytes(key)] = count
    skipped = merged.pop(SKIPPED, {})
    with open(os.path.join(target, "all.counts"), "wb") as out:
        out.write(counts.write(merged))
    with open(os.path.join(target, "skipped.txt"), "wb") as out:
        out.writelines(b"%b\n" % path for path in sorted(skipped))
    spark.stop()


if __name__ == "__main__":
    main()
