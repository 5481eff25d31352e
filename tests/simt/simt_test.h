// What the tests of the emulator share.
#ifndef TOST_TESTS_SIMT_SIMT_TEST_H_
#define TOST_TESTS_SIMT_SIMT_TEST_H_

#include <cuda_runtime.h>

#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/simt/emulator.h"

namespace tost::simt {

// Device memory for `count` elements.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&begin_), count * sizeof(T)), cudaSuccess);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    EXPECT_EQ(cudaMemcpy(begin_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  ~DeviceArray() { cudaFree(begin_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* get() const { return begin_; }
  std::vector<T> ToHost() const {
    std::vector<T> values(count_);
    cudaDeviceSynchronize();
    cudaMemcpy(values.data(), begin_, count_ * sizeof(T), cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  T* begin_ = nullptr;
  size_t count_;
};

class Stream {
 public:
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() { EXPECT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), cudaSuccess); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

struct Schedule {
  Order order;
  uint64_t seed;
};
inline const std::vector<Schedule>& Schedules() {
  static const std::vector<Schedule> schedules = [] {
    std::vector<Schedule> all = {{Order::kForward, 1}, {Order::kReverse, 1}};
    for (uint64_t seed = 1; seed <= 10; ++seed) all.push_back({Order::kRandom, seed});
    return all;
  }();
  return schedules;
}
inline void ForEachSchedule(const std::function<void()>& run) {
  for (const Schedule& schedule : Schedules()) {
    options().order = schedule.order;
    options().seed = schedule.seed;
    run();
  }
}

}  // namespace tost::simt

#endif  // TOST_TESTS_SIMT_SIMT_TEST_H_
