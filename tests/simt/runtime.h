// The emulated CUDA runtime inside: errors, queues of operations, captured graphs.
#ifndef TOST_TESTS_SIMT_RUNTIME_H_
#define TOST_TESTS_SIMT_RUNTIME_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/simt/emulator.h"

namespace tost::simt {

// One call of the CUDA API: calls of several threads follow each other, and none may come from
// inside of queued work.
class ApiCall {
 public:
  ApiCall();
  // Whether an earlier defect makes every call fail.
  bool failed() const { return failed_; }
  // Remembers an error for cudaGetLastError. The defect's error instead of `status` once there is
  // one.
  cudaError_t Return(cudaError_t status) const;

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  bool failed_;
};

Statistics& MutableStatistics();

// How many operations of each stream are known to have come before. Entries beyond the end are 0.
using Clock = std::vector<uint64_t>;
void Join(Clock& clock, const Clock& other);

enum class OperationKind { kKernel, kCopy, kFill, kHostWork, kRecord, kWait, kGraph };

struct EventState {
  uint64_t recorded = 0;  // how often cudaEventRecord was called
  uint64_t reached = 0;   // the last of these that a stream has come to
  double reached_seconds = 0;
  Clock clock;  // of the last record
  // When last recorded in a capture: whose, and after which nodes.
  uint64_t capture = 0;
  std::vector<size_t> nodes;
};

struct Operation {
  OperationKind kind = OperationKind::kHostWork;
  const void* subject = nullptr;  // a kernel: what a graph's update may not change
  std::function<void()> run;
  std::function<void()> queued;  // when the host hands it to a stream, once per launch of a graph
  std::shared_ptr<EventState> event;  // of a kWait: until its record number `ticket` is reached
  uint64_t ticket = 0;
  Clock clock;  // everything ordered before, itself included
};

// Appends to the stream's queue or to the graph that it captures.
void EnqueueOperation(cudaStream_t stream, Operation operation);
// Runs whatever is queued and must be over when the host has waited.
void DrainStream(cudaStream_t stream);
void DrainAllStreams();
void WaitForEvent(const std::shared_ptr<EventState>& event);
CUstream_st& StreamOf(cudaStream_t stream);  // the default stream for null

// The operation that runs now, for the checker: a number that grows with each, and whether an
// earlier one is ordered before it by streams, events and waits of the host.
uint32_t CurrentOperation();
bool IsOrderedBeforeCurrent(uint32_t operation);
bool IsExecuting();

struct GraphNode {
  Operation operation;
  std::vector<size_t> needs;  // earlier nodes
};
struct Capture {
  uint64_t number = 0;
  CUstream_st* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool invalid = false;
  std::vector<GraphNode> nodes;
};
void AppendToCapture(CUstream_st& stream, Operation operation);
// The stream's next captured operation needs what the event stands for. The stream joins the
// event's capture if it is in none.
cudaError_t WaitInCapture(CUstream_st& stream, const EventState& event);
// Every stream that takes part goes back to queueing.
void LeaveCapture(const Capture& capture);
// Makes a capture fail that the host would have to wait for. Whether it did.
bool InvalidateCapture(CUstream_st& stream);
// The same for calls that a capture forbids unless it is relaxed.
bool InvalidateStrictCaptures();

}  // namespace tost::simt

// CUDA leaves these types to whoever implements its runtime.
struct CUstream_st {
  size_t number = 0;
  std::deque<tost::simt::Operation> queue;
  tost::simt::Clock clock;  // of its last operation
  std::shared_ptr<tost::simt::Capture> capture;
  std::vector<size_t> captured_last;  // the nodes that its next captured operation needs
};
struct CUevent_st {
  std::shared_ptr<tost::simt::EventState> state;
};

#endif  // TOST_TESTS_SIMT_RUNTIME_H_
