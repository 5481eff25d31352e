#include "tests/trainers/torch_writer.h"

#include "tests/data/test_files.h"

namespace tost::train {
namespace {

uint32_t Crc32(const std::string& bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

template <class T>
std::string Number(T value) {
  return BytesOf<T>({value});
}

}  // namespace

PickleWriter::PickleWriter(uint8_t protocol) { Op(PickleOpcode::kProtocol).Byte(protocol); }

PickleWriter& PickleWriter::Op(PickleOpcode opcode) { return Byte(static_cast<int>(opcode)); }

PickleWriter& PickleWriter::Byte(int value) {
  bytes_.push_back(static_cast<char>(value));
  return *this;
}

PickleWriter& PickleWriter::Raw(const std::string& bytes) {
  bytes_ += bytes;
  return *this;
}

PickleWriter& PickleWriter::Text(const std::string& text) {
  return Op(PickleOpcode::kBinUnicode).Raw(Number(static_cast<uint32_t>(text.size()))).Raw(text);
}

PickleWriter& PickleWriter::Integer(int32_t value) {
  return Op(PickleOpcode::kBinInt).Raw(Number(value));
}

PickleWriter& PickleWriter::Long(int64_t value) {
  return Op(PickleOpcode::kLong1).Byte(8).Raw(Number(value));
}

PickleWriter& PickleWriter::Global(const std::string& module, const std::string& name) {
  return Op(PickleOpcode::kGlobal).Raw(module).Raw("\n").Raw(name).Raw("\n");
}

PickleWriter& PickleWriter::Extents(const std::vector<int64_t>& extents) {
  Op(PickleOpcode::kMark);
  for (const int64_t extent : extents) Long(extent);
  return Op(PickleOpcode::kTuple);
}

PickleWriter& PickleWriter::Tensor(const std::string& storage_class, const std::string& key,
                                   const std::vector<int64_t>& shape,
                                   const std::vector<int64_t>& strides, int64_t offset) {
  using enum PickleOpcode;
  Global("torch._utils", "_rebuild_tensor_v2").Op(kMark).Op(kMark);
  Text("storage").Global("torch", storage_class).Text(key).Text("cpu").Integer(0);
  Op(kTuple).Op(kBinPersistentId).Long(offset).Extents(shape).Extents(strides).Op(kFalse);
  return Global("collections", "OrderedDict").Op(kEmptyTuple).Op(kReduce).Op(kTuple).Op(kReduce);
}

std::string PickleWriter::Stop() { return Op(PickleOpcode::kStop).bytes_; }

std::string ZipOf(const std::vector<std::pair<std::string, std::string>>& records) {
  std::string file, directory;
  for (const auto& [name, content] : records) {
    const auto size = static_cast<uint32_t>(content.size());
    // Version, flags, method, time, date; checksum and sizes; length of the name and the rest.
    const std::string common = BytesOf<uint16_t>({20, 0, 0, 0, 0x21}) +
                               BytesOf<uint32_t>({Crc32(content), size, size}) +
                               BytesOf<uint16_t>({static_cast<uint16_t>(name.size()), 0});
    directory += "PK\x01\x02" + Number<uint16_t>(20) + common + BytesOf<uint16_t>({0, 0, 0}) +
                 Number<uint32_t>(0) + Number(static_cast<uint32_t>(file.size())) + name;
    file += "PK\x03\x04" + common + name + content;
  }
  const auto count = static_cast<uint16_t>(records.size());
  return file + directory + "PK\x05\x06" + BytesOf<uint16_t>({0, 0, count, count}) +
         BytesOf<uint32_t>(
             {static_cast<uint32_t>(directory.size()), static_cast<uint32_t>(file.size())}) +
         Number<uint16_t>(0);
}

std::string TorchBytes(const std::string& pickle,
                       const std::vector<std::pair<std::string, std::string>>& storages,
                       const std::string& byte_order) {
  std::vector<std::pair<std::string, std::string>> records{{"archive/data.pkl", pickle},
                                                           {"archive/byteorder", byte_order}};
  for (const auto& [key, bytes] : storages) records.emplace_back("archive/data/" + key, bytes);
  records.emplace_back("archive/version", "3\n");
  return ZipOf(records);
}

}  // namespace tost::train
