// Traffic of matrix products, for the functions of roofline/traffic.h.
#ifndef TOST_ROOFLINE_PRODUCTS_H_
#define TOST_ROOFLINE_PRODUCTS_H_

#include <cstdint>

#include "autograd/base/dtype.h"
#include "roofline/counting_device.h"

namespace tost::roofline {

// So many multiplications, each with an addition, of elements of this type.
Traffic ProductTraffic(DType operands, int64_t multiplications, int64_t bytes_read,
                       int64_t bytes_written);

}  // namespace tost::roofline

#endif  // TOST_ROOFLINE_PRODUCTS_H_
