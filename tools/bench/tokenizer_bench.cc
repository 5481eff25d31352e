// MB/s of GPT-2's tokenizer, one thread.
//
//   TOST_BENCH_TEXT=english.txt tokenizer_bench --benchmark_filter='encode/text'
//
// encode/tinyshakespeare and decode/tinyshakespeare read data/samples, encode/text and decode/text
// the file that TOST_BENCH_TEXT names. encode/letters, carets and spaces are single pieces of that
// many equal characters, create the reading of tables.
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "autograd/base/errors.h"
#include "benchmark/benchmark.h"
#include "data/atomic_file.h"
#include "data/byte_pair_encoding.h"

namespace tost::data {
namespace {

void Encode(benchmark::State& state, const std::string& text) {
  const BytePairEncoding& gpt2 = BytePairEncoding::Gpt2();
  std::vector<int32_t> ids;
  for (auto _ : state) {
    ids.clear();
    gpt2.Encode(text, ids);
    benchmark::DoNotOptimize(ids.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
  state.counters["ids"] = static_cast<double>(ids.size());
}

void Decode(benchmark::State& state, const std::string& text) {
  const BytePairEncoding& gpt2 = BytePairEncoding::Gpt2();
  std::vector<int32_t> ids;
  gpt2.Encode(text, ids);
  for (auto _ : state) benchmark::DoNotOptimize(gpt2.Decode(ids));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}

// Of a folder's tables; for its own, the program leaves out the merging of every token.
void Create(benchmark::State& state) {
  const BytePairEncoding::Tables& tables = BytePairEncoding::Gpt2().tables();
  for (auto _ : state) benchmark::DoNotOptimize(BytePairEncoding::Create(tables));
}

void RegisterText(const std::string& name, const std::string& path) {
  const std::string text = TOST_CHECK_VALUE(ReadFile(path));
  benchmark::RegisterBenchmark(("encode/" + name).c_str(), [=](benchmark::State& state) {
    Encode(state, text);
  })->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark(("decode/" + name).c_str(), [=](benchmark::State& state) {
    Decode(state, text);
  })->Unit(benchmark::kMillisecond);
}

void Register() {
  benchmark::RegisterBenchmark("create", Create)->Unit(benchmark::kMillisecond);
  RegisterText("tinyshakespeare", TOST_SOURCE_DIR "/data/samples/tinyshakespeare.txt");
  if (const char* const path = std::getenv("TOST_BENCH_TEXT")) RegisterText("text", path);
  for (const auto& [name, character] :
       {std::pair{"letters", 'a'}, {"carets", '^'}, {"spaces", ' '}}) {
    for (const int64_t count : {100, 1'000, 100'000, 1'000'000}) {
      const std::string text(static_cast<size_t>(count), character);
      benchmark::RegisterBenchmark(("encode/" + std::string(name)).c_str(),
                                   [=](benchmark::State& state) { Encode(state, text); })
          ->Arg(count)
          ->Unit(benchmark::kMillisecond);
    }
  }
}

}  // namespace
}  // namespace tost::data

int main(int argc, char** argv) {
  tost::data::Register();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
