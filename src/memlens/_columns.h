/* Buffers that Python owns, as columns, and what functions on them have in common. */

#ifndef MEMLENS_COLUMNS_H
#define MEMLENS_COLUMNS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "_sources.h"

/* What a column has to be: its name, the bytes of an item (0: 4 or 8), and whether it is written. */
typedef struct {
    const char *name;
    int width, written;
} wanted;

/* A contiguous buffer of items of one width; `items` counts them. */
typedef struct {
    Py_buffer view;
    Py_ssize_t items;
} column;

static inline void release(column *c, int count) {
    for (int i = 0; i < count; i++)
        PyBuffer_Release(&c[i].view);
}

/* Whether a column that is written shares memory with another one. */
static inline int shared(const column *c, const wanted *given, int count) {
    for (int i = 0; i < count; i++)
        for (int k = 0; given[i].written && k < count; k++) {
            const uintptr_t one = (uintptr_t)c[i].view.buf, other = (uintptr_t)c[k].view.buf;
            if (i != k && one < other + (uintptr_t)c[k].view.len && other < one + (uintptr_t)c[i].view.len)
                return 1;
        }
    return 0;
}

/* Take the columns that a function is given, all of them, or none and -1. */
static inline int take(PyObject *args, column *c, const wanted *given, int count, const char *function) {
    int taken = 0;
    if (PyTuple_Size(args) != count)
        PyErr_Format(PyExc_TypeError, "%s: %d columns are needed", function, count);
    for (; !PyErr_Occurred() && taken < count; taken++) {
        Py_buffer *view = &c[taken].view;
        if (PyObject_GetBuffer(PyTuple_GetItem(args, taken), view, PyBUF_ND | (given[taken].written ? PyBUF_WRITABLE : 0)) < 0)
            break;
        const Py_ssize_t width = given[taken].width ? given[taken].width : view->itemsize == 4 ? 4 : 8;
        c[taken].items = view->len / width;
        if (view->itemsize != width || (uintptr_t)view->buf % (uintptr_t)width)
            PyErr_Format(PyExc_ValueError, "%s: items of %zd bytes, at multiples of that, are needed, not of %zd", given[taken].name, width, view->itemsize);
    }
    if (!PyErr_Occurred() && shared(c, given, count))
        PyErr_Format(PyExc_ValueError, "%s: columns that are written must lie apart from the others", function);
    if (!PyErr_Occurred())
        return 0;
    release(c, taken);
    return -1;
}

/* A function of columns alone: `work` is done without the interpreter lock, and gives NULL, OUT_OF_MEMORY, or what else is needed. */
#define OUT_OF_MEMORY ""
enum { MOST_COLUMNS = 20 };

static inline PyObject *worked(PyObject *args, const wanted *given, int count, const char *function, const char *work(const column *)) {
    column c[MOST_COLUMNS];
    const char *needed;
    if (take(args, c, given, count, function))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    needed = work(c);
    Py_END_ALLOW_THREADS
    release(c, count);
    if (PyErr_Occurred())
        return NULL;
    if (needed)
        return *needed ? PyErr_Format(PyExc_ValueError, "%s: needed are %s", function, needed) : PyErr_NoMemory();
    return Py_NewRef(Py_None);
}

/* Defines `function`, which Python calls with the columns that `given` names. */
#define FUNCTION(function, given, work)                                                             \
    PyObject *memlens_##function(PyObject *Py_UNUSED(module), PyObject *args)                       \
    {                                                                                               \
        return worked(args, given, (int)(sizeof given / sizeof *given), #function, work);           \
    }

/* Defines the module of some methods, which imports as `path`. */
#define MODULE(name, path)                                                                                                              \
    static PyModuleDef_Slot slots[] = {{0, NULL}};                                                                                      \
    static PyModuleDef definition = {PyModuleDef_HEAD_INIT, path, MEMLENS_SOURCES, 0, methods, slots, NULL, NULL, NULL};                \
    PyMODINIT_FUNC PyInit_##name(void) { return PyModuleDef_Init(&definition); }

/* The functions of _alignment.c, and that of _effects.c. */
PyObject *memlens_align(PyObject *module, PyObject *args);
PyObject *memlens_chain(PyObject *module, PyObject *args);
PyObject *memlens_effects(PyObject *module, PyObject *args);

#endif
