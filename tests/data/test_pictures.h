// Pictures for tests.
#ifndef TOST_TESTS_DATA_TEST_PICTURES_H_
#define TOST_TESTS_DATA_TEST_PICTURES_H_

#include "autograd/base/philox.h"
#include "data/image.h"

namespace tost::data {

// Every byte random.
inline Image NoisePicture(int width, int height, uint64_t seed = 1) {
  Image image(width, height);
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] =
        static_cast<uint8_t>(RandomWords({.seed = seed}, 0, static_cast<int64_t>(i)).word[0]);
  }
  return image;
}

// Red says the column and green the row, modulo 256.
inline Image PositionPicture(int width, int height) {
  Image image(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      image.Pixel(x, y)[0] = static_cast<uint8_t>(x);
      image.Pixel(x, y)[1] = static_cast<uint8_t>(y);
    }
  }
  return image;
}

}  // namespace tost::data

#endif  // TOST_TESTS_DATA_TEST_PICTURES_H_
