#include "trainers/torch_file.h"

#include <map>
#include <random>
#include <string>
#include <vector>

#include "autograd/base/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"
#include "tests/trainers/torch_writer.h"
#include "trainers/element_values.h"

namespace tost::train {
namespace {

using testing::ElementsAre;
using Op = PickleOpcode;

// A file that PyTorch wrote; see make.py beside it.
std::string PyTorchFile(const std::string& name) {
  return std::string(TOST_SOURCE_DIR) + "/tests/data/torch/" + name;
}

std::map<std::string, TorchTensor> TensorsOf(const TorchFile& file) {
  std::map<std::string, TorchTensor> tensors;
  const absl::StatusOr<std::vector<NamedTorchTensor>> named = file.StateDict();
  EXPECT_TRUE(named.ok()) << named.status();
  for (const NamedTorchTensor& tensor : *named) tensors[tensor.name] = tensor.tensor;
  return tensors;
}

// A pickle of {"weight": a float tensor of storage "0"}.
std::string OneTensor(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                      int64_t offset = 0, const std::string& storage_class = "FloatStorage") {
  PickleWriter writer;
  writer.Op(Op::kEmptyDictionary).Text("weight").Tensor(storage_class, "0", shape, strides, offset);
  return writer.Op(Op::kSetItem).Stop();
}

class TorchFileTest : public testing::Test {
 protected:
  absl::StatusOr<TorchFile> Open(const std::string& bytes) {
    WriteBytes(path_, bytes);
    return TorchFile::Open(path_);
  }
  // Opens a file and reads all tensors of its state dict.
  absl::Status ReadAll(const std::string& bytes) {
    TOST_ASSIGN_OR_RETURN(const TorchFile file, Open(bytes));
    TOST_ASSIGN_OR_RETURN(const std::vector<NamedTorchTensor> named, file.StateDict());
    std::vector<TorchTensor> tensors;
    for (const NamedTorchTensor& tensor : named) tensors.push_back(tensor.tensor);
    return file.ReadTensors(tensors,
                            [](size_t, std::span<const std::byte>) { return absl::OkStatus(); });
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.File("x.pt");
};

TEST_F(TorchFileTest, EveryTypeAsPyTorchWritesIt) {
  const absl::StatusOr<TorchFile> file = TorchFile::Open(PyTorchFile("every_type.pt"));
  ASSERT_TRUE(file.ok()) << file.status();
  std::map<std::string, TorchTensor> tensors = TensorsOf(*file);
  EXPECT_EQ(tensors.size(), 13u);
  for (const char* name : {"float32", "float64", "float16", "bfloat16"}) {
    EXPECT_THAT(tensors[name].shape, ElementsAre(2, 3)) << name;
    EXPECT_THAT(*file->ReadFloats(tensors[name]), ElementsAre(-0.75, -0.5, -0.25, 0, 0.25, 0.5))
        << name;
  }
  EXPECT_EQ(tensors["bfloat16"].dtype, "BF16");
  EXPECT_THAT(tensors["transposed"].shape, ElementsAre(3, 4));
  EXPECT_THAT(*file->ReadFloats(tensors["transposed"]),
              ElementsAre(-0.75, 0, 0.75, 1.5, -0.5, 0.25, 1, 1.75, -0.25, 0.5, 1.25, 2));
  EXPECT_EQ(tensors["rows"].storage, tensors["transposed"].storage);
  EXPECT_THAT(*file->ReadFloats(tensors["rows"]), ElementsAre(0, 0.25, 0.5, 0.75, 1, 1.25));
  EXPECT_THAT(*file->ReadFloats(tensors["parameter"]), ElementsAre(-0.75, -0.5, -0.25, 0, 0.25));
  EXPECT_THAT(tensors["scalar"].shape, ElementsAre());
  EXPECT_THAT(*file->ReadFloats(tensors["scalar"]), ElementsAre(2.5));
  EXPECT_THAT(*file->ReadFloats(tensors["empty"]), ElementsAre());
  EXPECT_THAT(*file->ReadIntegers(tensors["int64"]), ElementsAre(-(int64_t{1} << 40), 0, 7));
  EXPECT_THAT(*file->ReadIntegers(tensors["int32"]), ElementsAre(-5, 6));
  EXPECT_THAT(*file->ReadIntegers(tensors["uint8"]), ElementsAre(0, 255));
  EXPECT_THAT(*file->ReadIntegers(tensors["bool"]), ElementsAre(1, 0));
  ExpectOneLine(file->ReadFloats(tensors["int64"]).status(), {"every_type.pt", "I64"});
  ExpectOneLine(file->ReadIntegers(tensors["float16"]).status(), {"every_type.pt", "F16"});
}

TEST_F(TorchFileTest, PlainValuesBesideTheStateDict) {
  const absl::StatusOr<TorchFile> file = TorchFile::Open(PyTorchFile("nanogpt_checkpoint.pt"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->root().Find("iter_num")->integer, 250);
  EXPECT_EQ(file->root().Find("model_args")->Find("n_embd")->integer, 8);
  EXPECT_EQ(file->root().Find("config")->Find("out_dir")->text, "out");
  const absl::StatusOr<TorchTensor> best =
      file->TensorOf(*file->root().Find("best_val_loss"), "best_val_loss");
  EXPECT_THAT(*file->ReadFloats(*best), ElementsAre(1.25));
  std::map<std::string, TorchTensor> tensors = TensorsOf(*file);
  EXPECT_THAT(tensors["_orig_mod.transformer.h.0.attn.bias"].shape, ElementsAre(1, 1, 6, 6));
  EXPECT_EQ(tensors["_orig_mod.lm_head.weight"], tensors["_orig_mod.transformer.wte.weight"]);
}

TEST_F(TorchFileTest, TensorsComeInTheOrderOfTheirStorages) {
  const absl::StatusOr<TorchFile> file = TorchFile::Open(PyTorchFile("every_type.pt"));
  std::map<std::string, TorchTensor> tensors = TensorsOf(*file);
  const std::vector<TorchTensor> wanted{tensors["rows"], tensors["float32"], tensors["transposed"]};
  std::vector<size_t> order;
  ASSERT_TRUE(file->ReadTensors(wanted,
                                [&](size_t index, std::span<const std::byte> elements) {
                                  order.push_back(index);
                                  EXPECT_EQ(FloatsOf("F32", elements)->size(),
                                            index == 2 ? 12u : 6u);
                                  return absl::OkStatus();
                                })
                  .ok());
  EXPECT_THAT(order, ElementsAre(1, 0, 2));
  const absl::Status stopped = file->ReadTensors(
      wanted, [](size_t, std::span<const std::byte>) { return absl::CancelledError("enough"); });
  EXPECT_EQ(stopped.message(), "enough");
}

TEST_F(TorchFileTest, FilesThatAreNotRead) {
  ExpectOneLine(TorchFile::Open(PyTorchFile("legacy.pt")).status(), {"legacy.pt", "before 1.6"});
  ExpectOneLine(TorchFile::Open(PyTorchFile("script.pt")).status(), {"script.pt", "TorchScript"});
  ExpectOneLine(TorchFile::Open(PyTorchFile("module.pt")).status(),
                {"module.pt", "torch.nn.modules.container.Sequential"});
  ExpectOneLine(TorchFile::Open(folder_.File("none.pt")).status(), {"none.pt", "No such file"});
  ExpectOneLine(TorchFile::Open(folder_.path()).status(), {folder_.path()});
  ExpectOneLine(Open("").status(), {"x.pt"});
  ExpectOneLine(Open("text").status(), {"x.pt", "no file of PyTorch"});
  ExpectOneLine(Open(ZipOf({{"a/b.txt", "text"}})).status(), {"without data.pkl"});
  ExpectOneLine(Open(TorchBytes(OneTensor({1}, {1}), {{"0", "1234"}}, "big")).status(),
                {"'big'-endian"});
  const std::string pickle = OneTensor({1}, {1});
  ExpectOneLine(Open(ZipOf({{"a/data.pkl", pickle}, {"a/data.pkl", pickle}})).status(),
                {"data.pkl occurs twice"});
}

TEST_F(TorchFileTest, HostilePickleIsRefusedByName) {
  PickleWriter writer;
  writer.Global("os", "system").Text("touch owned").Op(Op::kTuple1).Op(Op::kReduce);
  ExpectOneLine(Open(TorchBytes(writer.Stop())).status(), {"x.pt: data.pkl, byte 2", "os.system"});
}

TEST_F(TorchFileTest, StateDictIsFoundWhereItUsuallyLies) {
  for (const std::string key : {"model", "state_dict", "model_state_dict"}) {
    PickleWriter writer;
    writer.Op(Op::kEmptyDictionary).Op(Op::kMark).Text("epoch").Integer(3).Text(key);
    writer.Op(Op::kEmptyDictionary).Text("weight").Tensor("FloatStorage", "0", {1}, {1});
    writer.Op(Op::kSetItem).Op(Op::kSetItems);
    const absl::StatusOr<TorchFile> file =
        Open(TorchBytes(writer.Stop(), {{"0", BytesOf<float>({1.5f})}}));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_THAT(*file->ReadFloats(TensorsOf(*file)["weight"]), ElementsAre(1.5)) << key;
    EXPECT_EQ(file->root().Find("epoch")->integer, 3);
  }
  PickleWriter other;
  other.Op(Op::kEmptyDictionary).Text("epoch").Integer(3).Op(Op::kSetItem);
  ExpectOneLine(Open(TorchBytes(other.Stop()))->StateDict().status(), {"x.pt", "'epoch'"});
  ExpectOneLine(Open(TorchBytes("\x80\x02N."))->StateDict().status(), {"no dictionary of tensors"});
  PickleWriter twice;
  twice.Op(Op::kEmptyDictionary);
  for (int i = 0; i < 2; ++i) {
    twice.Text("weight").Tensor("FloatStorage", "0", {1}, {1}).Op(Op::kSetItem);
  }
  ExpectOneLine(Open(TorchBytes(twice.Stop(), {{"0", "1234"}}))->StateDict().status(),
                {"tensor weight occurs twice"});
}

TEST_F(TorchFileTest, ViewsMustFitTheirStorage) {
  const std::string storage(24, '\0');  // six floats
  const auto status = [&](const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                          int64_t offset) {
    return ReadAll(TorchBytes(OneTensor(shape, strides, offset), {{"0", storage}}));
  };
  constexpr int64_t kHuge = int64_t{1} << 62;
  EXPECT_TRUE(status({2, 3}, {3, 1}, 0).ok());
  EXPECT_TRUE(status({}, {}, 5).ok());
  EXPECT_TRUE(status({0, kHuge, kHuge}, {1, 1, 1}, 6).ok());
  EXPECT_TRUE(status({1, 6}, {kHuge, 1}, 0).ok());
  ExpectOneLine(status({2, 3}, {3, 1}, 1), {"tensor weight", "[2, 3]", "24 bytes"});
  ExpectOneLine(status({}, {}, 6), {"does not fit"});
  ExpectOneLine(status({7}, {1}, 0), {"does not fit"});
  ExpectOneLine(status({7}, {0}, 0), {"does not fit"});  // more elements than the storage has
  ExpectOneLine(status({2, 2}, {kHuge, kHuge}, 0), {"does not fit"});
  ExpectOneLine(status({kHuge, kHuge}, {0, 0}, 0), {"does not fit"});
  ExpectOneLine(status({2}, {1}, -1), {"damaged"});
  ExpectOneLine(status({-2}, {1}, 0), {"damaged"});
  ExpectOneLine(status({2}, {-1}, 1), {"damaged"});
  ExpectOneLine(status({2, 2}, {1}, 0), {"damaged"});
  ExpectOneLine(status(std::vector<int64_t>(65, 1), std::vector<int64_t>(65, 1), 0), {"damaged"});
  ExpectOneLine(ReadAll(TorchBytes(OneTensor({1}, {1}))), {"record data/0 is not in the file"});
  ExpectOneLine(ReadAll(TorchBytes(OneTensor({1}, {1}, 0, "storage\nUntypedStorage"))),
                {"storage"});
}

TEST_F(TorchFileTest, StridesOfAnyOrderAreGathered) {
  std::vector<float> storage(24);
  for (size_t i = 0; i < storage.size(); ++i) storage[i] = static_cast<float>(i);
  // x[i, j, k] of a [2, 3, 4] tensor whose axes lie in the order k, i, j.
  const absl::StatusOr<TorchFile> file =
      Open(TorchBytes(OneTensor({2, 3, 4}, {3, 1, 6}), {{"0", BytesOf(storage)}}));
  const std::vector<float> values = *file->ReadFloats(TensorsOf(*file)["weight"]);
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      for (size_t k = 0; k < 4; ++k) {
        EXPECT_EQ(values[(i * 3 + j) * 4 + k], static_cast<float>(3 * i + j + 6 * k));
      }
    }
  }
}

TEST_F(TorchFileTest, StrideOfASingleElementMeansNothing) {
  const absl::StatusOr<TorchFile> file = Open(
      TorchBytes(OneTensor({2, 1, 2}, {1, INT64_MAX, 2}), {{"0", BytesOf<float>({1, 2, 3, 4})}}));
  EXPECT_THAT(*file->ReadFloats(TensorsOf(*file)["weight"]), ElementsAre(1, 3, 2, 4));
}

TEST_F(TorchFileTest, FolderInTheArchiveMayHaveAnyName) {
  const std::string pickle = OneTensor({1}, {1});
  EXPECT_TRUE(ReadAll(ZipOf({{"\xd0\xbc\xd0\xbe\xd0\xb4/data.pkl", pickle},
                             {"\xd0\xbc\xd0\xbe\xd0\xb4/data/0", "1234"}}))
                  .ok());
}

TEST_F(TorchFileTest, ChangedElementsAreNoticed) {
  std::string bytes = TorchBytes(OneTensor({1}, {1}), {{"0", "!!!!"}});
  bytes[bytes.find("!!!!")] = '?';
  ExpectOneLine(ReadAll(bytes), {"x.pt", "record data/0", "CRC"});
}

TEST_F(TorchFileTest, CutAtAnyLengthIsOneLine) {
  const std::string small = TorchBytes(OneTensor({1}, {1}), {{"0", "1234"}});
  const std::string large = ReadBytes(PyTorchFile("every_type.pt"));
  ASSERT_TRUE(ReadAll(small).ok());
  ASSERT_TRUE(ReadAll(large).ok());
  for (size_t length = 0; length < small.size(); ++length) {
    ExpectOneLine(ReadAll(small.substr(0, length)), {"x.pt"});
  }
  for (size_t length = 0; length < large.size(); length += 41) {
    ExpectOneLine(ReadAll(large.substr(0, length)), {"x.pt"});
  }
}

// Whatever becomes of a flipped file, it is read or refused in one line.
TEST_F(TorchFileTest, RandomFlipsNeverCrash) {
  std::mt19937 random(1);
  for (const char* name : {"every_type.pt", "nanogpt_checkpoint.pt"}) {
    const std::string whole = ReadBytes(PyTorchFile(name));
    int refused = 0;
    for (int round = 0; round < 200; ++round) {
      std::string bytes = whole;
      for (int flips = 1 + round % 3; flips > 0; --flips) {
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
      const absl::Status status = ReadAll(bytes);
      if (status.ok()) continue;
      ++refused;
      ExpectOneLine(status, {"x.pt"});
    }
    EXPECT_GT(refused, 50);
  }
}

// The same for the pickle alone, whose checksum is made to fit.
TEST_F(TorchFileTest, RandomFlipsOfThePickleNeverCrash) {
  const std::string pickle = OneTensor({2, 3}, {3, 1});
  const std::string storage(24, '\0');
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    std::string bytes = pickle;
    for (int flips = 1 + round % 3; flips > 0; --flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const absl::Status status = ReadAll(TorchBytes(bytes, {{"0", storage}}));
    if (!status.ok()) ExpectOneLine(status, {"x.pt"});
  }
}

}  // namespace
}  // namespace tost::train
