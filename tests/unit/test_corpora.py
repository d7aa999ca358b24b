# SPDX-License-Identifier: GPL-2.0-or-later
"""What the fuzzers' stored inputs are for, they are."""


def test_reader_seeds(source):
    """An odd first size makes the first file the metadata and drops the manifest: never by chance."""
    for seed in (source / "tests/fuzz/corpus/reader").iterdir():
        data = seed.read_bytes()
        assert data[0] & 1 == data[6:].startswith(b"/* CTF"), seed.name
