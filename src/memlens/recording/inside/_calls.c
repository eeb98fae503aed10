/* The lines of the operators that a program calls: program_lines.py says what they are, and has the reference of each function.

   It is loaded by its path into programs whose Python may be any from 3.8 on.  State is guarded by the interpreter lock.  */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../_sources.h"

/* As in program_lines.py.  A hook's line ends in that of the pass that calls it. */
enum { FRAMES = 6, LONGEST = 240, DEEPEST = 200, LINE = 2 * LONGEST + 4, HEADER = 96 };

static const char CALLS[] = "line.py:0] memlens calls ", PASS[] = "run_backward";

/* The table of code objects; functions that add one, and that write down a place in it; names of attributes. */
static PyObject *codes, *meet, *word, *name_code, *name_back, *name_instruction;
static long long written;

static _Thread_local struct {
    char text[LINE]; /* the call that the thread is within */
    int size;
    char head[HEADER]; /* what follows the time */
    int head_size;
} here = {.text = "-", .size = 1};

/* The header of a line, which begins with the second: its size. */
static int put_header(char *into)
{
    static time_t second = -1;
    static char text[HEADER / 2];
    static int size;
    struct timespec now;
    if (!here.head_size)
        here.head_size = snprintf(here.head, sizeof here.head, " %5lu %s", PyThread_get_thread_native_id(), CALLS);
    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec != second) {
        struct tm parts;
        second = now.tv_sec;
        size = (int)strftime(text, sizeof text, "I%m%d %H:%M:%S.", localtime_r(&second, &parts));
    }
    memcpy(into, text, (size_t)size);
    long part = now.tv_nsec / 1000; /* by hand: printf is cold between operators */
    for (int i = 5; i >= 0; i--, part /= 10)
        into[size + i] = (char)('0' + part % 10);
    memcpy(into + size + 6, here.head, (size_t)here.head_size);
    return size + 6 + here.head_size;
}

/* Write a line, which has room for its end, in one piece. */
static void put(char *line, int size)
{
    ssize_t done;
    line[size++] = '\n';
    written += size;
    Py_BEGIN_ALLOW_THREADS /* who reads it may be a thread of this program */
    do
        done = write(2, line, (size_t)size);
    while (done < 0 && errno == EINTR);
    Py_END_ALLOW_THREADS
}

/* What is written of the place where a frame is: bytes, None where it is not the user's, NULL after an exception.

   While a function of Python's runs another thread may empty the table, so that what is used is held. */
static PyObject *words_of(PyObject *frame, PyObject *code)
{
    PyObject *key = PyLong_FromVoidPtr(code), *entry = key ? PyDict_GetItem(codes, key) : NULL, *words = NULL;
    Py_XDECREF(key);
    Py_XINCREF(entry);
    if (!entry)
        entry = PyObject_CallFunctionObjArgs(meet, code, NULL);
    PyObject *places = entry ? PyTuple_GetItem(entry, 1) : NULL;
    if (places == Py_None) {
        words = places;
        Py_INCREF(words);
    } else if (places) {
        PyObject *at = PyObject_GetAttr(frame, name_instruction);
        words = at ? PyDict_GetItem(places, at) : NULL;
        Py_XINCREF(words);
        if (at && !words)
            words = PyObject_CallFunctionObjArgs(word, places, frame, NULL);
        Py_XDECREF(at);
    }
    Py_XDECREF(entry);
    return words;
}

/* Add to a text the frames of the user's from one on, which is taken over: the size of the text, -1 after an exception. */
static int put_frames(char *text, int size, PyObject *frame)
{
    int frames = 0, looked = 0;
    while (frame && frame != Py_None && looked++ < DEEPEST) {
        PyObject *code = PyObject_GetAttr(frame, name_code), *words = code ? words_of(frame, code) : NULL;
        char *bytes = NULL;
        Py_ssize_t length = 0;
        Py_XDECREF(code); /* the frame has it */
        if (!words || (words != Py_None && PyBytes_AsStringAndSize(words, &bytes, &length)) ||
            (bytes && (++frames > FRAMES || (length > LONGEST - size && frames > 1)))) {
            Py_XDECREF(words);
            break;
        }
        if (bytes) {
            if (length > LONGEST - size)
                for (length = LONGEST - size; length && (bytes[length] & 0xc0) == 0x80; length--)
                    ; /* whole characters */
            memcpy(text + size, bytes, (size_t)length);
            size += (int)length;
        }
        Py_DECREF(words);
        PyObject *outer = PyObject_GetAttr(frame, name_back);
        Py_DECREF(frame);
        frame = outer;
    }
    Py_XDECREF(frame);
    return PyErr_Occurred() ? -1 : size;
}

/* Put the line of a call that begins: whether it was written. */
static int put_call(const char *operator, Py_ssize_t length)
{
    char line[HEADER + HEADER + LINE];
    const int head = put_header(line), pass = sizeof PASS - 1, outer = here.size - pass;
    char *text = line + head;
    int size = length < LONGEST ? (int)length : LONGEST;
    PyObject *frame = (PyObject *)PyEval_GetFrame(); /* the function that stands in the operator's place */
    if (!frame)
        return 0;
    memcpy(text, operator, (size_t)size);
    if ((size = put_frames(text, size, PyObject_GetAttr(frame, name_back))) < 0)
        return 0;
    if (outer > 0 && here.size <= LONGEST && size >= outer && !memcmp(here.text, PASS, (size_t)pass) &&
        !memcmp(text + size - outer, here.text + pass, (size_t)outer)) { /* a hook, which the pass calls */
        memcpy(text + size - outer, " < ", 3);
        memcpy(text + size - outer + 3, here.text, (size_t)here.size);
        size += 3 + pass;
    }
    memcpy(here.text, text, (size_t)size);
    here.size = size;
    put(line, head + size);
    return 1;
}

static PyObject *begin(PyObject *Py_UNUSED(module), PyObject *operator)
{
    char *name;
    Py_ssize_t length;
    PyObject *before = PyBytes_FromStringAndSize(here.text, here.size);
    if (before && codes && !PyBytes_AsStringAndSize(operator, &name, &length) && put_call(name, length))
        return before;
    Py_XDECREF(before);
    PyErr_Clear(); /* a recursion at its limit */
    Py_RETURN_NONE;
}

static PyObject *end(PyObject *Py_UNUSED(module), PyObject *before)
{
    char line[HEADER + HEADER + LINE], *text;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(before, &text, &size))
        return NULL;
    here.size = size < LINE ? (int)size : LINE;
    memcpy(here.text, text, (size_t)here.size);
    if (codes) {
        const int head = put_header(line);
        memcpy(line + head, here.text, (size_t)here.size);
        put(line, head + here.size);
    }
    PyErr_Clear();
    Py_RETURN_NONE;
}

static PyObject *setup(PyObject *Py_UNUSED(module), PyObject *given)
{
    PyObject *table;
    if (codes)
        return PyErr_Format(PyExc_RuntimeError, "another interpreter of this process writes lines");
    if (!PyArg_ParseTuple(given, "O!OOOOO", &PyDict_Type, &table, &meet, &word, &name_code, &name_back, &name_instruction))
        return NULL;
    Py_INCREF(given); /* and what is in it, to the end of the process */
    codes = table;
    Py_RETURN_NONE;
}

static PyObject *bytes_written(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyLong_FromLongLong(written);
}

static PyMethodDef methods[] = {
    {"begin", begin, METH_O, "Write the line of a call: that of the one that it is within, None where nothing is written."},
    {"end", end, METH_O, "Write that a call is over, and which one it was within."},
    {"setup", setup, METH_VARARGS, "Once in a process: the table of code objects, the functions that fill it, and names of attributes."},
    {"written", bytes_written, METH_NOARGS, "The bytes of lines so far."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_calls", MEMLENS_SOURCES, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__calls(void)
{
    return PyModuleDef_Init(&definition);
}
