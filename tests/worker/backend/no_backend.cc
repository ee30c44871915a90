// A shared object without the entry of a backend.
extern "C" __attribute__((visibility("default"))) int SomethingElse() { return 1; }
