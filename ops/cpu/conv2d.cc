#include "ops/cpu/conv2d.h"

#include <algorithm>

#include "autograd/base/parallel.h"
#include "ops/conv2d.h"

namespace tost::ops::cpu {
namespace {

// The pixels of a row of x that columns [0, K) of a patch read, cut to those inside: patch columns
// [first, last) read pixels from `pixel` on.
struct Span {
  int64_t first, last, pixel;
};

Span InsideColumns(const Conv2dDims& d, int64_t j) {
  const int64_t origin = j * d.stride - d.padding;
  const int64_t first = std::max<int64_t>(0, -origin);
  return {first, std::max(first, std::min(d.kernel, d.width - origin)), origin + first};
}

template <class T>
void UnfoldRow(const Conv2dDims& d, const T* picture, int64_t i, T* patches) {
  const int64_t row_size = d.kernel * d.channels;
  for (int64_t j = 0; j < d.out_width; ++j, patches += d.patch_size()) {
    const Span span = InsideColumns(d, j);
    for (int64_t u = 0; u < d.kernel; ++u) {
      T* to = patches + u * row_size;
      const int64_t h = i * d.stride + u - d.padding;
      if (h < 0 || h >= d.height) {
        std::fill_n(to, row_size, T(0));
        continue;
      }
      const T* from = picture + (h * d.width + span.pixel) * d.channels;
      T* inside = std::fill_n(to, span.first * d.channels, T(0));
      inside = std::copy_n(from, (span.last - span.first) * d.channels, inside);
      std::fill(inside, to + row_size, T(0));
    }
  }
}

// The outputs i whose window holds position h: those with i·s ≤ h + p < i·s + K.
struct Outputs {
  int64_t first, last;
};

Outputs OutputsThatRead(int64_t h, int64_t outputs, const Conv2dDims& d) {
  const int64_t position = h + d.padding;
  const int64_t first = position < d.kernel ? 0 : (position - d.kernel) / d.stride + 1;
  return {first, std::min(outputs, position / d.stride + 1)};
}

template <class T>
void FoldRow(const Conv2dDims& d, const T* patches, int64_t h, bool add, Accumulate<T>* sums,
             T* out) {
  const Outputs rows = OutputsThatRead(h, d.out_height, d);
  for (int64_t w = 0; w < d.width; ++w, out += d.channels) {
    const Outputs columns = OutputsThatRead(w, d.out_width, d);
    std::fill_n(sums, d.channels, Accumulate<T>(0));
    for (int64_t i = rows.first; i < rows.last; ++i) {
      const int64_t u = h + d.padding - i * d.stride;
      for (int64_t j = columns.first; j < columns.last; ++j) {
        const int64_t v = w + d.padding - j * d.stride;
        const T* from =
            patches + ((i * d.out_width + j) * d.kernel * d.kernel + u * d.kernel + v) * d.channels;
        for (int64_t c = 0; c < d.channels; ++c) sums[c] += static_cast<Accumulate<T>>(from[c]);
      }
    }
    for (int64_t c = 0; c < d.channels; ++c) {
      out[c] = static_cast<T>(add ? static_cast<Accumulate<T>>(out[c]) + sums[c] : sums[c]);
    }
  }
}

}  // namespace

void Unfold(const Conv2dDims& d, const Tensor& x, Tensor& patches) {
  VisitFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* pictures = x.data<T>();
    T* out = patches.mutable_data<T>();
    const int64_t row = d.out_width * d.patch_size();
    ParallelFor(d.batch * d.out_height, RowGrain(row), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* picture = pictures + r / d.out_height * d.height * d.width * d.channels;
        UnfoldRow(d, picture, r % d.out_height, out + r * row);
      }
    });
  });
}

void Fold(const Conv2dDims& d, const Tensor& patches, bool add, Tensor& x) {
  VisitFloat(patches.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* in = patches.data<T>();
    T* out = x.mutable_data<T>();
    const int64_t row = d.width * d.channels;
    ParallelFor(d.batch * d.height, RowGrain(row), [&](int64_t begin, int64_t end) {
      Tensor scratch = Tensor::Empty({d.channels}, kDTypeOf<Accumulate<T>>);
      for (int64_t r = begin; r < end; ++r) {
        const T* picture = in + r / d.height * d.out_height * d.out_width * d.patch_size();
        FoldRow(d, picture, r % d.height, add, scratch.mutable_data<Accumulate<T>>(),
                out + r * row);
      }
    });
  });
}

void RearrangeConvWeight(const Conv2dDims& d, const ConvWeightLayout& layout, const Tensor& from,
                         Tensor& to) {
  VisitFloat(from.dtype(), [&](auto from_zero) {
    VisitFloat(to.dtype(), [&](auto to_zero) {
      using From = decltype(from_zero);
      using To = decltype(to_zero);
      using A = Accumulate<To>;
      const From* in = from.data<From>();
      To* out = to.mutable_data<To>();
      const int64_t window = d.kernel * d.kernel, filter = d.patch_size();
      for (int64_t o = 0; o < d.out_channels; ++o) {
        for (int64_t c = 0; c < d.channels; ++c) {
          for (int64_t uv = 0; uv < window; ++uv) {
            const int64_t official = o * filter + c * window + uv;
            const int64_t patch = o * filter + uv * d.channels + c;
            const A value = static_cast<A>(in[layout.back ? patch : official]);
            To& place = out[layout.back ? official : patch];
            place = static_cast<To>(layout.add ? static_cast<A>(place) + value : value);
          }
        }
      }
    });
  });
}

}  // namespace tost::ops::cpu
