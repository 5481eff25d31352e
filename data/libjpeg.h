// libjpeg's headers, which leave it to others to include what they need.
#ifndef TOST_DATA_LIBJPEG_H_
#define TOST_DATA_LIBJPEG_H_

// clang-format off
#include <cstddef>
#include <cstdio>

#include <jerror.h>
#include <jpeglib.h>
// clang-format on

#endif  // TOST_DATA_LIBJPEG_H_
