/* safetensors: names and sizes of element types. The files are in formats/checkpoint.h. */
#ifndef FORMATS_SAFETENSORS_H
#define FORMATS_SAFETENSORS_H

#include <stddef.h>

#include "formats/checkpoint.h"

const char *st_dtype_name(enum st_dtype t); /* "F32"; "?" for ST_OTHER's many */
size_t st_dtype_size(enum st_dtype t);      /* bytes of one element; not of ST_OTHER */

#endif
