/* What stands in the place of the operators that a program calls, and writes their lines: program_lines.py says what these are, and has the reference.

   It is loaded by its path into programs whose Python may be any from 3.8 on.  State is guarded by the interpreter lock.  */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../_sources.h"

/* As in program_lines.py.  A hook's line ends in that of the pass that calls it. */
enum { FRAMES = 6, LONGEST = 240, DEEPEST = 200, EACH = 16, FIRST = 256, PAUSE = 1000000, LOOK = 4000000, LINE = 2 * LONGEST + 4, HEADER = 96 };

static const char CALLS[] = "line.py:0] memlens calls ", PASS[] = "run_backward";

/* Functions that give what is written of a frame; that are called before and after some operators, and with what one raised; the type of methods;
   names of attributes. */
static PyObject *words_of, *before, *after, *failed, *method, *name_code, *name_back, *name_instruction;
/* What a frame runs, where it is in that, and the frame that called it: in a tenth of the time of an attribute, where this Python has them. */
static PyObject *(*get_code)(PyObject *), *(*get_back)(PyObject *);
static int (*get_instruction)(PyObject *);
/* What is written of places that were met last.  It holds their code objects, so that no other gets the address of one. */
static struct {
    PyObject *code, *words;
    long at;
} known[1 << 14];
static long long written;
/* Operators so far, how many of each EACH `before` was told of, and when `after` is called: as walks.py says. */
enum { NEVER, ALWAYS, AT_TIMES };
static long calls, told, asks = ALWAYS;
static int64_t now, looked, asked; /* nanoseconds: when a line was written last, and before `before` and `after` were called */

/* What stands in an operator's place. */
typedef struct {
    PyObject_HEAD
    PyObject *function, *name;
    int backward;
} replacement;
static PyObject *replacements; /* their type */

static _Thread_local struct {
    char text[LINE]; /* the call that the thread is within */
    int size;
    char head[HEADER]; /* what follows the time */
    int head_size;
} here = {.text = "-", .size = 1};

/* The header of a line, which begins with the second: its size. */
static int put_header(char *into) {
    static time_t second = -1;
    static char text[HEADER / 2];
    static int size;
    struct timespec at;
    if (!here.head_size)
        here.head_size = snprintf(here.head, sizeof here.head, " %5lu %s", PyThread_get_thread_native_id(), CALLS);
    clock_gettime(CLOCK_REALTIME, &at);
    now = at.tv_sec * INT64_C(1000000000) + at.tv_nsec;
    if (at.tv_sec != second) {
        struct tm parts;
        second = at.tv_sec;
        size = (int)strftime(text, sizeof text, "I%m%d %H:%M:%S.", localtime_r(&second, &parts));
    }
    memcpy(into, text, (size_t)size);
    long part = at.tv_nsec / 1000; /* by hand: printf is cold between operators */
    for (int i = 5; i >= 0; i--, part /= 10)
        into[size + i] = (char)('0' + part % 10);
    memcpy(into + size + 6, here.head, (size_t)here.head_size);
    return size + 6 + here.head_size;
}

/* Write the line of the call that the thread is within, in one piece. */
static void put(void) {
    char line[HEADER + HEADER + LINE];
    int size = put_header(line);
    ssize_t done;
    memcpy(line + size, here.text, (size_t)here.size);
    size += here.size;
    line[size++] = '\n';
    written += size;
    Py_BEGIN_ALLOW_THREADS /* who reads it may be a thread of this program */
    do
        done = write(2, line, (size_t)size);
    while (done < 0 && errno == EINTR);
    Py_END_ALLOW_THREADS
}

/* What is written of the place where a frame is: bytes, None where it is not the user's, NULL after an exception.

   While a function of Python's runs another thread may come here, so that what is used after it is held. */
static PyObject *known_words(PyObject *frame, PyObject *code) {
    PyObject *number = get_instruction ? NULL : PyObject_GetAttr(frame, name_instruction);
    const long at = get_instruction ? get_instruction(frame) : number ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    const size_t slot = ((uintptr_t)code / 32 + 37 * (size_t)at) % (sizeof known / sizeof *known);
    PyObject *words = known[slot].words;
    if (known[slot].code == code && known[slot].at == at) {
        Py_INCREF(words);
        return words;
    }
    if ((at == -1 && PyErr_Occurred()) || !(words = PyObject_CallFunctionObjArgs(words_of, frame, NULL)))
        return NULL;
    PyObject *old_code = known[slot].code, *old_words = known[slot].words;
    Py_INCREF(code);
    Py_INCREF(words);
    known[slot].code = code;
    known[slot].words = words;
    known[slot].at = at;
    Py_XDECREF(old_code);
    Py_XDECREF(old_words);
    return words;
}

/* Add to a text the frames of the user's, from one on: the size of the text, -1 after an exception. */
static int put_frames(char *text, int size, PyObject *frame) {
    PyObject *words = NULL;
    Py_INCREF(frame);
    for (int frames = 0, looked = 0; frame && frame != Py_None && looked < DEEPEST; looked++) {
        PyObject *inner = frame, *code = get_code ? get_code(frame) : PyObject_GetAttr(frame, name_code);
        char *bytes;
        Py_ssize_t length;
        Py_XDECREF(words);
        words = code ? known_words(frame, code) : NULL;
        Py_XDECREF(code); /* the frame has it */
        if (words != Py_None) {
            if (!words || PyBytes_AsStringAndSize(words, &bytes, &length) || ++frames > FRAMES || (length > LONGEST - size && frames > 1))
                break;
            if (length > LONGEST - size)
                for (length = LONGEST - size; length && (bytes[length] & 0xc0) == 0x80; length--)
                    ; /* whole characters */
            memcpy(text + size, bytes, (size_t)length);
            size += (int)length;
        }
        frame = get_back ? get_back(inner) : PyObject_GetAttr(inner, name_back);
        Py_DECREF(inner);
    }
    Py_XDECREF(words);
    Py_XDECREF(frame);
    return PyErr_Occurred() ? -1 : size;
}

/* Put the line of a call that begins: whether it was written. */
static int put_call(const char *operator, Py_ssize_t length) {
    const int pass = sizeof PASS - 1, outer = here.size - pass;
    char text[LINE];
    int size = length < LONGEST ? (int)length : LONGEST;
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    memcpy(text, operator, (size_t)size);
    if (!frame || (size = put_frames(text, size, frame)) < 0)
        return 0;
    if (outer > 0 && here.size <= LONGEST && size >= outer && !memcmp(here.text, PASS, (size_t)pass) &&
        !memcmp(text + size - outer, here.text + pass, (size_t)outer)) { /* a hook, which the pass calls */
        memcpy(text + size - outer, " < ", 3);
        memcpy(text + size - outer + 3, here.text, (size_t)here.size);
        size += 3 + pass;
    }
    memcpy(here.text, text, (size_t)size);
    here.size = size;
    put();
    return 1;
}

/* Whether no exception is left, of those that are the program's affair: not a recursion at its limit. */
static int goes_on(void) {
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    return !PyErr_Occurred();
}

/* Call a function of Python's beside an operator: a number that it gives says when `after` is called.  Whether the program goes on. */
static int tell(PyObject *function, PyObject *one, PyObject *two) {
    PyObject *given = PyObject_CallFunctionObjArgs(function, one, two, NULL);
    if (given && PyLong_Check(given))
        asks = PyLong_AsLong(given);
    Py_XDECREF(given);
    return goes_on();
}

/* Whether a time is so many nanoseconds ago, or the clock was set back. */
static int past(int64_t time, int64_t pause) { return now < time || now - time > pause; }

/* A backward pass, or the latest of some operators, is about to run. */
static int tell_before(const replacement *r) {
    PyObject *times = PyLong_FromLong(r->backward ? 1 : calls / EACH - told);
    if (!r->backward)
        told = calls / EACH, looked = now;
    const int goes = times ? tell(before, r->name, times) : goes_on();
    Py_XDECREF(times);
    return goes;
}

static PyObject *call(PyObject *self, PyObject *args, PyObject *names) {
    const replacement *r = (replacement *)self;
    char text[LINE], *name;
    const int size = here.size;
    Py_ssize_t length;
    PyObject *kind, *error, *trace;
    if (names && !PyDict_Size(names))
        names = NULL; /* a constructor of Paddle 3.0 takes an empty dictionary for one with names */
    if (!words_of)
        return PyObject_Call(r->function, args, names);
    calls++;
    if ((r->backward || (calls % EACH == 0 && (calls <= FIRST || past(looked, LOOK)))) && !tell_before(r))
        return NULL;
    memcpy(text, here.text, (size_t)size);
    const int begun = !PyBytes_AsStringAndSize(r->name, &name, &length) && put_call(name, length);
    PyObject *result = goes_on() ? PyObject_Call(r->function, args, names) : NULL;
    PyErr_Fetch(&kind, &error, &trace);
    if (kind && PyErr_GivenExceptionMatches(kind, PyExc_Exception)) {
        PyErr_NormalizeException(&kind, &error, &trace);
        tell(failed, error, NULL);
    }
    if (begun) {
        memcpy(here.text, text, (size_t)size);
        here.size = size;
        if (words_of)
            put();
    }
    if (kind) {
        PyErr_Restore(kind, error, trace);
    } else if (words_of && (r->backward || asks == ALWAYS || (asks == AT_TIMES && past(asked, PAUSE)))) {
        asked = now;
        if (!tell(after, r->name, args))
            Py_CLEAR(result);
    }
    return result;
}

/* All else that it is asked is the operator's own. */
static PyObject *attribute(PyObject *self, PyObject *name) { return PyObject_GetAttr(((replacement *)self)->function, name); }

static PyObject *bound(PyObject *self, PyObject *object, PyObject *Py_UNUSED(type)) {
    if (object)
        return PyObject_CallFunctionObjArgs(method, self, object, NULL);
    Py_INCREF(self);
    return self;
}

static PyType_Slot of_replacements[] = {{Py_tp_call, call}, {Py_tp_getattro, attribute}, {Py_tp_descr_get, bound}, {0, NULL}};
static PyType_Spec specification = {"memlens.operator", sizeof(replacement), 0, Py_TPFLAGS_DEFAULT, of_replacements};

static PyObject *replaced(PyObject *Py_UNUSED(module), PyObject *given) {
    PyObject *function, *name;
    if (!PyArg_ParseTuple(given, "OS", &function, &name))
        return NULL;
    replacement *r = PyObject_New(replacement, (PyTypeObject *)replacements);
    if (!r)
        return NULL;
    Py_INCREF(given); /* and what is in it */
    r->function = function;
    r->name = name;
    r->backward = !strcmp(PyBytes_AsString(name), PASS);
    return (PyObject *)r;
}

static PyObject *stop(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused)) {
    words_of = NULL;
    Py_RETURN_NONE;
}

static PyObject *setup(PyObject *Py_UNUSED(module), PyObject *given) {
    if (replacements)
        return PyErr_Format(PyExc_RuntimeError, "another interpreter of this process writes lines");
    if (!PyArg_ParseTuple(given, "OOOOOOOO", &words_of, &before, &after, &failed, &method, &name_code, &name_back, &name_instruction))
        return NULL;
    Py_INCREF(given); /* and what is in it, to the end of the process */
    *(void **)&get_code = dlsym(RTLD_DEFAULT, "PyFrame_GetCode"); /* from 3.9 on */
    *(void **)&get_instruction = dlsym(RTLD_DEFAULT, "PyFrame_GetLasti"); /* from 3.11 on */
    *(void **)&get_back = dlsym(RTLD_DEFAULT, "PyFrame_GetBack");
    replacements = PyType_FromSpec(&specification);
    return replacements ? PyLong_FromLong(0) : NULL;
}

static PyObject *bytes_written(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused)) {
    return PyLong_FromLongLong(written);
}

static PyMethodDef methods[] = {
    {"setup", setup, METH_VARARGS, "Once in a process: the functions that are called, the type of methods, and names of attributes."},
    {"replaced", replaced, METH_VARARGS, "What stands in the place of an operator, given that and its name as bytes."},
    {"stop", stop, METH_NOARGS, "Write no more lines."},
    {"written", bytes_written, METH_NOARGS, "The bytes of lines so far."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_calls", MEMLENS_SOURCES, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__calls(void) {
    return PyModuleDef_Init(&definition);
}
