// The emulated CUDA runtime: queues, events, copies, captured graphs, errors.
#include <array>
#include <cstring>

#include "cuda/gpu.h"
#include "tests/simt/sample_kernels.h"
#include "tests/simt/simt_test.h"

namespace {

cudaError_t launch_status = cudaSuccess;

}  // namespace

// In place of the one that ends the process.
void tost::gpu::CheckCall(cudaError_t status, const char*, const void*) { launch_status = status; }

namespace tost::simt {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr size_t kFloat = sizeof(float);

TEST(Streams, AStreamKeepsItsOrder) {
  ForEachSchedule([] {
    const DeviceArray<float> x{std::vector<float>(100, 1)}, y(100);
    const Stream stream;
    TwicePlusOne(x.get(), y.get(), 100, stream);
    TwicePlusOne(y.get(), x.get(), 100, stream);
    cudaMemcpyAsync(y.get(), x.get(), 100 * kFloat, cudaMemcpyDeviceToDevice, stream);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_THAT(y.ToHost(), Each(7));
  });
}

TEST(Streams, WorkRunsEarlyOrLateAsTheOrderSays) {
  const auto ran_at_once = [](Order order) {
    options() = {.order = order};
    const Stream stream;
    bool ran = false;
    Enqueue(stream, [&ran] { ran = true; });
    const bool at_once = ran;
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_TRUE(ran);
    return at_once;
  };
  EXPECT_TRUE(ran_at_once(Order::kForward));
  EXPECT_FALSE(ran_at_once(Order::kReverse));
}

TEST(Streams, ALaunchKeepsTheArgumentsThatItWasGiven) {
  options() = {.order = Order::kReverse};
  const DeviceArray<float> x{std::vector<float>(4, 1)}, y(4);
  const Stream stream;
  int count = 4;
  TwicePlusOne(x.get(), y.get(), count, stream);
  count = 0;
  cudaStreamSynchronize(stream);
  EXPECT_THAT(y.ToHost(), Each(3));
}

TEST(Streams, QueriesSeeTheEndInTime) {
  options() = {.order = Order::kReverse};
  const Stream stream;
  const Event event;
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);  // never recorded
  for (int i = 0; i < 3; ++i) Enqueue(stream, [] {});
  cudaEventRecord(event, stream);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  int queries = 1;
  while (cudaEventQuery(event) == cudaErrorNotReady) ++queries;
  EXPECT_LE(queries, 4);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  cudaGetLastError();
}

TEST(Events, AWaitIsForTheRecordBeforeIt) {
  ForEachSchedule([] {
    const Stream first, second;
    const Event event;
    std::string order;
    Enqueue(first, [&] { order += "a"; });
    cudaEventRecord(event, first);
    cudaStreamWaitEvent(second, event, 0);
    Enqueue(second, [&] { order += "b"; });
    Enqueue(first, [&] { order += "c"; });
    cudaEventRecord(event, first);
    cudaEventSynchronize(event);
    EXPECT_NE(order.find("c"), std::string::npos);
    cudaDeviceSynchronize();
    EXPECT_LT(order.find("a"), order.find("b"));
  });
}

TEST(Copies, ReadTheHostWhenTheirTurnComes) {
  options() = {.order = Order::kReverse};
  const DeviceArray<float> x{std::vector<float>(1, 5)};
  float host = 0;
  const Stream stream;
  cudaMemcpyAsync(&host, x.get(), kFloat, cudaMemcpyDeviceToHost, stream);
  EXPECT_EQ(host, 0);
  cudaStreamSynchronize(stream);
  EXPECT_EQ(host, 5);
}

TEST(Copies, WrongDirectionsAndRangesAreErrors) {
  const DeviceArray<float> x(2);
  float host[3] = {};
  EXPECT_EQ(cudaMemcpy(x.get(), host, kFloat, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, x.get(), kFloat, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(x.get(), host, 3 * kFloat, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(x.get(), 0, 3 * kFloat), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(host, 0, kFloat), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(Memory, IsFreshlyFullOfNaN) {
  const DeviceArray<float> x(3);
  std::array<float, 3> host{};
  // Unchecked: the emulator itself would name the read.
  if (!ChecksAccesses()) {
    cudaMemcpy(host.data(), x.get(), sizeof(host), cudaMemcpyDeviceToHost);
    for (float value : host) EXPECT_NE(value, value);
  }
}

TEST(Memory, EndsAtTheLimit) {
  options().device_memory = 1000;
  void *first = nullptr, *second = nullptr;
  EXPECT_EQ(cudaMalloc(&first, 900), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 101), cudaErrorMemoryAllocation);
  EXPECT_STREQ(cudaGetErrorName(cudaGetLastError()), "cudaErrorMemoryAllocation");
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  EXPECT_EQ(free, 100u);
  EXPECT_EQ(total, 1000u);
  cudaFree(first);
  EXPECT_EQ(cudaMalloc(&second, 101), cudaSuccess);
  cudaFree(second);
  options() = {};
}

TEST(Memory, AForeignPointerIsNotFreed) {
  int host = 0;
  EXPECT_EQ(cudaFree(&host), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(&host), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST(Launches, BadShapesAreErrors) {
  const DeviceArray<float> x{std::vector<float>(1)}, sums(1);
  SumRows(Defect::kNone, x.get(), sums.get(), 1, 1, 1056, nullptr);
  EXPECT_EQ(launch_status, cudaErrorInvalidConfiguration);
}

TEST(Device, IsMadeUp) {
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  cudaDeviceProp properties;
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_STREQ(properties.name, "emulated");
  EXPECT_EQ(properties.major, 9);
  cudaGetLastError();
}

class Graphs : public ::testing::Test {
 protected:
  // What `capture` queues on the stream, as an executable graph.
  cudaGraphExec_t Captured(const std::function<void()>& capture) {
    EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
    capture();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return executable;
  }

  const Stream stream_;
  const DeviceArray<float> x_{std::vector<float>(8, 1)}, y_{std::vector<float>(8)};
};

TEST_F(Graphs, RunWhenLaunched) {
  ForEachSchedule([this] {
    cudaMemset(y_.get(), 0, 8 * kFloat);
    const cudaGraphExec_t graph =
        Captured([this] { TwicePlusOne(x_.get(), y_.get(), 8, stream_); });
    EXPECT_THAT(y_.ToHost(), Each(0));
    EXPECT_EQ(cudaGraphLaunch(graph, stream_), cudaSuccess);
    EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);  // the launch goes on
    EXPECT_THAT(y_.ToHost(), Each(3));
  });
}

TEST_F(Graphs, CopiesReadTheHostAtEachLaunch) {
  ForEachSchedule([this] {
    std::vector<float> host(8, 1);
    const cudaGraphExec_t graph = Captured([&] {
      cudaMemcpyAsync(x_.get(), host.data(), 8 * kFloat, cudaMemcpyHostToDevice, stream_);
      TwicePlusOne(x_.get(), y_.get(), 8, stream_);
    });
    for (const float value : {2.0f, 3.0f}) {
      host.assign(8, value);
      cudaGraphLaunch(graph, stream_);
      EXPECT_THAT(y_.ToHost(), Each(2 * value + 1));
    }
    cudaGraphExecDestroy(graph);
  });
}

TEST_F(Graphs, AnUpdateChangesArgumentsOnly) {
  const cudaGraphExec_t graph = Captured([this] { TwicePlusOne(x_.get(), y_.get(), 8, stream_); });
  const auto update = [&](const std::function<void()>& capture) {
    cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed);
    capture();
    cudaGraph_t other = nullptr;
    cudaStreamEndCapture(stream_, &other);
    cudaGraphExecUpdateResultInfo info{};
    const cudaError_t status = cudaGraphExecUpdate(graph, other, &info);
    cudaGraphDestroy(other);
    return std::pair(status, info.result);
  };
  cudaMemset(y_.get(), 0, 8 * kFloat);
  EXPECT_EQ(update([this] { TwicePlusOne(x_.get(), y_.get(), 3, stream_); }),
            std::pair(cudaSuccess, cudaGraphExecUpdateSuccess));
  cudaGraphLaunch(graph, stream_);
  EXPECT_THAT(y_.ToHost(), ElementsAre(3, 3, 3, 0, 0, 0, 0, 0));
  EXPECT_EQ(update([] {}),
            std::pair(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdateErrorTopologyChanged));
  EXPECT_EQ(update([this] { cudaMemsetAsync(y_.get(), 0, kFloat, stream_); }),
            std::pair(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdateErrorNodeTypeChanged));
  cudaGetLastError();
  cudaGraphExecDestroy(graph);
}

TEST_F(Graphs, ForkedStreamsKeepTheirOrder) {
  ForEachSchedule([this] {
    const Stream other;
    const Event forked, joined;
    const DeviceArray<float> between{std::vector<float>(8)};
    const cudaGraphExec_t graph = Captured([&] {
      cudaMemsetAsync(x_.get(), 0, 8 * kFloat, stream_);
      cudaEventRecord(forked, stream_);
      cudaStreamWaitEvent(other, forked, 0);
      TwicePlusOne(x_.get(), between.get(), 8, other);
      cudaEventRecord(joined, other);
      cudaMemsetAsync(y_.get(), 0, 8 * kFloat, stream_);
      cudaStreamWaitEvent(stream_, joined, 0);
      TwicePlusOne(between.get(), y_.get(), 8, stream_);
    });
    cudaGraphLaunch(graph, stream_);
    EXPECT_THAT(y_.ToHost(), Each(3));
    cudaGraphExecDestroy(graph);
  });
}

TEST_F(Graphs, WhatCannotBeCapturedIsAnError) {
  cudaGraph_t graph = nullptr;
  const Stream other;
  const Event forked;
  cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);

  cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal);
  void* block = nullptr;
  EXPECT_EQ(cudaMalloc(&block, 4), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);

  cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed);
  cudaEventRecord(forked, stream_);
  EXPECT_EQ(cudaEventSynchronize(forked), cudaErrorCapturedEvent);
  cudaStreamWaitEvent(other, forked, 0);
  TwicePlusOne(x_.get(), y_.get(), 8, other);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  cudaGetLastError();
  EXPECT_EQ(cudaStreamSynchronize(other), cudaSuccess);
}

TEST(Counts, BytesOfGlobalMemory) {
  if (!ChecksAccesses()) GTEST_SKIP() << "the access checker counts";
  ResetAccessCounts();
  const DeviceArray<float> x{std::vector<float>(300)}, sums(3);
  SumRows(Defect::kNone, x.get(), sums.get(), 3, 100, 64, nullptr);
  cudaDeviceSynchronize();
  EXPECT_EQ(AccessesTo(x.get()).read, 1200);
  EXPECT_EQ(AccessesTo(x.get()).written, 0);
  EXPECT_EQ(AccessesTo(sums.get()).written, 12);
  ResetAccessCounts();
  EXPECT_EQ(AccessesTo(x.get()).read, 0);
}

}  // namespace
}  // namespace tost::simt
