#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_scan", NULL, 0, NULL, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__scan(void) { return PyModule_Create(&module); }
