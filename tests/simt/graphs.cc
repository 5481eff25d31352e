// Captured graphs: operations with what each needs to have run before, launched as one.
#include <algorithm>
#include <map>
#include <numeric>

#include "tests/simt/random.h"
#include "tests/simt/runtime.h"

struct CUgraph_st {
  std::vector<tost::simt::GraphNode> nodes;
};
struct CUgraphExec_st {
  // Shared with launches that are queued: an update makes a new list.
  std::shared_ptr<const std::vector<tost::simt::GraphNode>> nodes;
};

namespace tost::simt {
namespace {

auto& captures = *new std::map<uint64_t, std::shared_ptr<Capture>>;
uint64_t captures_begun = 0;

// The order in which the nodes run: every node after those it needs.
std::vector<size_t> NodeOrder(const std::vector<GraphNode>& nodes) {
  std::vector<size_t> order(nodes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (options().order == Order::kForward) return order;
  Random random(options().seed);
  std::vector<bool> done(nodes.size(), false);
  for (size_t& next : order) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const std::vector<size_t>& needs = nodes[i].needs;
      if (!done[i] && std::all_of(needs.begin(), needs.end(), [&](size_t n) { return done[n]; })) {
        ready.push_back(i);
        // In a chain, which most graphs are, the rest cannot be ready.
        if (i + 1 < nodes.size() && nodes[i + 1].needs == std::vector<size_t>{i}) break;
      }
    }
    next = options().order == Order::kReverse ? ready.back() : ready[random.Below(ready.size())];
    done[next] = true;
  }
  return order;
}

// Whether the last nodes of the capturing stream need, in the end, all the others.
bool IsJoined(const Capture& capture) {
  std::vector<bool> reached(capture.nodes.size(), false);
  for (size_t last : capture.origin->captured_last) reached[last] = true;
  for (size_t i = capture.nodes.size(); i > 0; --i) {
    if (!reached[i - 1]) return false;
    for (size_t need : capture.nodes[i - 1].needs) reached[need] = true;
  }
  return true;
}

// An update replaces arguments and addresses, not what is done and in which order.
cudaGraphExecUpdateResult CompareShape(const std::vector<GraphNode>& a,
                                       const std::vector<GraphNode>& b) {
  if (a.size() != b.size()) return cudaGraphExecUpdateErrorTopologyChanged;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].needs != b[i].needs) return cudaGraphExecUpdateErrorTopologyChanged;
    if (a[i].operation.kind != b[i].operation.kind) return cudaGraphExecUpdateErrorNodeTypeChanged;
    if (a[i].operation.subject != b[i].operation.subject) {
      return cudaGraphExecUpdateErrorFunctionChanged;
    }
  }
  return cudaGraphExecUpdateSuccess;
}

std::shared_ptr<const std::vector<GraphNode>> Nodes(cudaGraph_t graph) {
  return std::make_shared<const std::vector<GraphNode>>(graph->nodes);
}

}  // namespace

void AppendToCapture(CUstream_st& stream, Operation operation) {
  std::vector<GraphNode>& nodes = stream.capture->nodes;
  nodes.push_back({std::move(operation), stream.captured_last});
  stream.captured_last = {nodes.size() - 1};
}

cudaError_t WaitInCapture(CUstream_st& stream, const EventState& event) {
  const auto found = captures.find(event.capture);
  if (found == captures.end() ||
      (stream.capture != nullptr && stream.capture->number != event.capture)) {
    if (stream.capture != nullptr) stream.capture->invalid = true;
    return cudaErrorStreamCaptureIsolation;
  }
  stream.capture = found->second;
  for (size_t node : event.nodes) {
    std::vector<size_t>& last = stream.captured_last;
    if (std::find(last.begin(), last.end(), node) == last.end()) last.push_back(node);
  }
  return cudaSuccess;
}

bool InvalidateCapture(CUstream_st& stream) {
  if (stream.capture == nullptr) return false;
  stream.capture->invalid = true;
  return true;
}

bool InvalidateStrictCaptures() {
  bool any = false;
  for (const auto& [number, capture] : captures) {
    if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
    capture->invalid = any = true;
  }
  return any;
}

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t which, cudaStreamCaptureMode mode) {
  const ApiCall api;
  CUstream_st& stream = StreamOf(which);
  if (which == nullptr || stream.capture != nullptr) {
    return api.Return(which == nullptr ? cudaErrorStreamCaptureUnsupported : cudaErrorIllegalState);
  }
  auto capture = std::make_shared<Capture>();
  capture->number = ++captures_begun;
  capture->origin = &stream;
  capture->mode = mode;
  captures[capture->number] = capture;
  stream.capture = capture;
  stream.captured_last.clear();
  return api.Return(cudaSuccess);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t which, cudaStreamCaptureStatus* status) {
  const ApiCall api;
  const Capture* capture = StreamOf(which).capture.get();
  *status = capture == nullptr ? cudaStreamCaptureStatusNone
            : capture->invalid ? cudaStreamCaptureStatusInvalidated
                               : cudaStreamCaptureStatusActive;
  return api.Return(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t which, cudaGraph_t* graph) {
  const ApiCall api;
  *graph = nullptr;
  CUstream_st& stream = StreamOf(which);
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return api.Return(cudaErrorIllegalState);
  if (capture->origin != &stream) return api.Return(cudaErrorStreamCaptureUnmatched);
  const bool joined = IsJoined(*capture);
  captures.erase(capture->number);
  LeaveCapture(*capture);
  if (capture->invalid) return api.Return(cudaErrorStreamCaptureInvalidated);
  if (!joined) return api.Return(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{std::move(capture->nodes)};
  return api.Return(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const ApiCall api;
  delete graph;
  return api.Return(cudaSuccess);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  const ApiCall api;
  if (nodes != nullptr) return api.Return(cudaErrorNotSupported);
  *count = graph->nodes.size();
  return api.Return(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  const ApiCall api;
  *executable = new CUgraphExec_st{Nodes(graph)};
  return api.Return(cudaSuccess);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const ApiCall api;
  delete executable;
  return api.Return(cudaSuccess);
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  const ApiCall api;
  info->result = CompareShape(*executable->nodes, graph->nodes);
  if (info->result != cudaGraphExecUpdateSuccess) {
    return api.Return(cudaErrorGraphExecUpdateFailure);
  }
  executable->nodes = Nodes(graph);
  return api.Return(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const ApiCall api;
  const auto nodes = executable->nodes;
  const auto queued = [nodes] {
    for (const GraphNode& node : *nodes) {
      if (node.operation.queued) node.operation.queued();
    }
  };
  const auto run = [nodes] {
    for (size_t node : NodeOrder(*nodes)) (*nodes)[node].operation.run();
  };
  EnqueueOperation(stream, {.kind = OperationKind::kGraph, .run = run, .queued = queued});
  return api.Return(cudaSuccess);
}

}  // extern "C"

}  // namespace tost::simt
