/* Buffers that Python owns, as columns; see _columns.c. */

#ifndef MEMLENS_COLUMNS_H
#define MEMLENS_COLUMNS_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A contiguous buffer of items of one width; `items` counts them. */
typedef struct {
    Py_buffer view;
    Py_ssize_t items;
} column;

static inline int take(PyObject *object, column *into, Py_ssize_t width, int writable, const char *name)
{
    if (PyObject_GetBuffer(object, &into->view, PyBUF_ND | (writable ? PyBUF_WRITABLE : 0)) < 0) {
        into->view.obj = NULL;
        return -1;
    }
    if (into->view.itemsize != width || (uintptr_t)into->view.buf % (uintptr_t)width) {
        PyErr_Format(PyExc_ValueError, "%s: items of %zd bytes, at multiples of that, are needed, not of %zd", name, width, into->view.itemsize);
        PyBuffer_Release(&into->view);
        return -1;
    }
    into->items = into->view.len / width;
    return 0;
}

/* Whether a column from `writable` on, which is written, shares memory with another one. */
static inline int shared(const column *c, int count, int writable)
{
    for (int i = writable; i < count; i++)
        for (int k = 0; k < count; k++) {
            const uintptr_t one = (uintptr_t)c[i].view.buf, other = (uintptr_t)c[k].view.buf;
            if (i != k && one < other + (uintptr_t)c[k].view.len && other < one + (uintptr_t)c[i].view.len)
                return 1;
        }
    return 0;
}

static inline void release(column *columns, int count)
{
    for (int i = 0; i < count; i++)
        if (columns[i].view.obj)
            PyBuffer_Release(&columns[i].view);
}

/* The functions of _alignment.c. */
PyObject *memlens_align(PyObject *module, PyObject *args);
PyObject *memlens_chain(PyObject *module, PyObject *args);

/* The function of _effects.c. */
PyObject *memlens_effects(PyObject *module, PyObject *args);

#endif
