/* A checksum of all C sources, the documentation of each compiled module: one that was built from other sources is not used.
   tests/test_native.py says what it has to be. */
#define MEMLENS_SOURCES "19554482560febcf"
