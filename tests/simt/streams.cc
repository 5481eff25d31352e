// Streams are queues. When their work runs is drawn by the seed, so that a program that relies on
// an order which nothing guarantees is found out.
#include <algorithm>
#include <chrono>

#include "tests/simt/random.h"
#include "tests/simt/report.h"
#include "tests/simt/runtime.h"

namespace tost::simt {
namespace {

// For every operation that has begun: its stream and its place there.
struct Place {
  size_t stream = 0;
  uint64_t position = 0;
};

struct Queues {
  // One like the others: without CUDA's implicit order between it and blocking streams, which
  // nothing here relies on.
  CUstream_st default_stream;
  std::vector<CUstream_st*> streams = {&default_stream};
  size_t streams_made = 1;
  Random schedule;
  uint64_t schedule_seed = 0;
  Clock host_clock;  // of all that the host has waited for
  Clock current_clock;
  std::vector<Place> places = std::vector<Place>(1);
  bool executing = false;
};
// Never destroyed: what lives as long as the process may still call.
Queues& queues = *new Queues;

double Now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

bool CanRun(const CUstream_st& stream) {
  if (stream.queue.empty()) return false;
  const Operation& head = stream.queue.front();
  return head.kind != OperationKind::kWait || head.event->reached >= head.ticket;
}

void Begin(const Clock& clock, size_t stream) {
  queues.current_clock = clock;
  queues.places.push_back({stream, stream < clock.size() ? clock[stream] : 0});
}

void RunHead(CUstream_st& stream) {
  const Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (!operation.run || DefectIsKept()) return;
  queues.executing = true;
  Begin(operation.clock, stream.number);
  operation.run();
  queues.executing = false;
}

// Runs one operation. `wanted` is the stream that the host waits for, if any.
bool RunOne(CUstream_st* wanted) {
  std::vector<CUstream_st*> ready;
  for (CUstream_st* stream : queues.streams) {
    if (CanRun(*stream)) ready.push_back(stream);
  }
  if (ready.empty()) return false;
  CUstream_st* next = ready.front();
  if (options().order == Order::kReverse) {
    next = wanted != nullptr && CanRun(*wanted) ? wanted : ready.back();
  } else if (options().order == Order::kRandom) {
    next = ready[queues.schedule.Below(ready.size())];
  }
  RunHead(*next);
  return true;
}

// After something was queued: how far the device happens to get at once.
void RunSome() {
  if (queues.schedule_seed != options().seed)
    queues.schedule = Random(queues.schedule_seed = options().seed);
  constexpr size_t kChances = 16, kMostAtOnce = 4;  // mostly nothing: late work shows more
  switch (options().order) {
    case Order::kForward:
      while (RunOne(nullptr)) {
      }
      break;
    case Order::kRandom:
      for (size_t i = queues.schedule.Below(kChances); i < kMostAtOnce && RunOne(nullptr); ++i) {
      }
      break;
    case Order::kReverse:
      break;
  }
}

cudaError_t CreateStream(cudaStream_t* stream) {
  const ApiCall api;
  *stream = new CUstream_st;
  (*stream)->number = queues.streams_made++;
  queues.streams.push_back(*stream);
  return api.Return(cudaSuccess);
}

cudaError_t CreateEvent(cudaEvent_t* event) {
  const ApiCall api;
  *event = new CUevent_st{std::make_shared<EventState>()};
  return api.Return(cudaSuccess);
}

}  // namespace

bool IsExecuting() { return queues.executing; }

void Join(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

void LeaveCapture(const Capture& capture) {
  for (CUstream_st* stream : queues.streams) {
    if (stream->capture.get() != &capture) continue;
    stream->capture.reset();
    stream->captured_last.clear();
  }
}

CUstream_st& StreamOf(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy ? queues.default_stream : *stream;
}

void EnqueueOperation(cudaStream_t to, Operation operation) {
  CUstream_st& stream = StreamOf(to);
  if (stream.capture != nullptr) return AppendToCapture(stream, std::move(operation));
  if (operation.queued) operation.queued();
  Join(stream.clock, queues.host_clock);
  if (operation.event != nullptr) Join(stream.clock, operation.event->clock);
  if (stream.clock.size() <= stream.number) stream.clock.resize(stream.number + 1);
  ++stream.clock[stream.number];
  operation.clock = stream.clock;
  stream.queue.push_back(std::move(operation));
  RunSome();
}

void DrainStream(cudaStream_t which) {
  CUstream_st& stream = StreamOf(which);
  while (!stream.queue.empty() && RunOne(&stream)) {
  }
  Join(queues.host_clock, stream.clock);
}

void DrainAllStreams() {
  while (RunOne(nullptr)) {
  }
  for (const CUstream_st* stream : queues.streams) Join(queues.host_clock, stream->clock);
}

void WaitForEvent(const std::shared_ptr<EventState>& event) {
  while (event->reached < event->recorded && RunOne(nullptr)) {
  }
  Join(queues.host_clock, event->clock);
}

uint32_t CurrentOperation() { return static_cast<uint32_t>(queues.places.size() - 1); }

bool IsOrderedBeforeCurrent(uint32_t operation) {
  const Place& place = queues.places[operation];
  return place.position == 0 || (place.stream < queues.current_clock.size() &&
                                 queues.current_clock[place.stream] >= place.position);
}

void Enqueue(cudaStream_t stream, std::function<void()> work) {
  const ApiCall api;
  EnqueueOperation(stream, {.run = std::move(work)});
}

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return CreateStream(stream); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return CreateStream(stream);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  return CreateStream(stream);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  const ApiCall api;
  *least = *greatest = 0;
  return api.Return(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const ApiCall api;
  DrainStream(stream);
  std::erase(queues.streams, stream);
  delete stream;
  return api.Return(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const ApiCall api;
  if (InvalidateCapture(StreamOf(stream))) return api.Return(cudaErrorStreamCaptureUnsupported);
  DrainStream(stream);
  return api.Return(cudaSuccess);
}

cudaError_t cudaDeviceSynchronize() {
  const ApiCall api;
  for (CUstream_st* stream : queues.streams) {
    if (InvalidateCapture(*stream)) return api.Return(cudaErrorStreamCaptureUnsupported);
  }
  DrainAllStreams();
  return api.Return(cudaSuccess);
}

cudaError_t cudaStreamQuery(cudaStream_t which) {
  const ApiCall api;
  CUstream_st& stream = StreamOf(which);
  if (InvalidateCapture(stream)) return api.Return(cudaErrorStreamCaptureUnsupported);
  RunOne(nullptr);  // or who asks until it is done would ask forever
  if (!stream.queue.empty()) return api.Return(cudaErrorNotReady);
  Join(queues.host_clock, stream.clock);
  return api.Return(cudaSuccess);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  const ApiCall api;
  EnqueueOperation(stream, {.run = [function, data] { function(data); }});
  return api.Return(cudaSuccess);
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return CreateEvent(event); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return CreateEvent(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const ApiCall api;
  delete event;
  return api.Return(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t which) {
  const ApiCall api;
  CUstream_st& stream = StreamOf(which);
  EventState& state = *event->state;
  if (stream.capture != nullptr) {
    state.capture = stream.capture->number;
    state.nodes = stream.captured_last;
    return api.Return(cudaSuccess);
  }
  state.capture = 0;
  ++state.recorded;
  const auto reach = [state = event->state, ticket = state.recorded] {
    state->reached = std::max(state->reached, ticket);
    state->reached_seconds = Now();
  };
  EnqueueOperation(which, {.kind = OperationKind::kRecord, .run = reach});
  state.clock = stream.clock;
  return api.Return(cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const ApiCall api;
  if (event->state->capture != 0) return api.Return(cudaErrorCapturedEvent);
  WaitForEvent(event->state);
  return api.Return(cudaSuccess);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const ApiCall api;
  if (event->state->capture != 0) return api.Return(cudaErrorCapturedEvent);
  RunOne(nullptr);  // see cudaStreamQuery
  if (event->state->reached < event->state->recorded) return api.Return(cudaErrorNotReady);
  Join(queues.host_clock, event->state->clock);
  return api.Return(cudaSuccess);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const ApiCall api;
  for (const cudaEvent_t event : {begin, end}) {
    if (event->state->recorded == 0) return api.Return(cudaErrorInvalidResourceHandle);
    if (event->state->reached < event->state->recorded) return api.Return(cudaErrorNotReady);
  }
  const double seconds = end->state->reached_seconds - begin->state->reached_seconds;
  *milliseconds = static_cast<float>(1e3 * seconds);
  return api.Return(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t which, cudaEvent_t event, unsigned) {
  const ApiCall api;
  CUstream_st& stream = StreamOf(which);
  const std::shared_ptr<EventState>& state = event->state;
  if (state->capture != 0 || stream.capture != nullptr) {
    return api.Return(WaitInCapture(stream, *state));
  }
  EnqueueOperation(which,
                   {.kind = OperationKind::kWait, .event = state, .ticket = state->recorded});
  return api.Return(cudaSuccess);
}

}  // extern "C"

}  // namespace tost::simt
