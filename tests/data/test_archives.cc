#include "tests/data/test_archives.h"

#include <archive.h>
#include <archive_entry.h>

#include "gtest/gtest.h"

namespace tost {
namespace {

la_ssize_t AppendTo(archive*, void* out, const void* bytes, size_t size) {
  static_cast<std::string*>(out)->append(static_cast<const char*>(bytes), size);
  return static_cast<la_ssize_t>(size);
}

std::string Write(const std::string& format, const std::string& filter, const Members& members) {
  std::string out;
  archive* const writer = archive_write_new();
  EXPECT_EQ(archive_write_set_format_by_name(writer, format.c_str()), ARCHIVE_OK) << format;
  if (!filter.empty()) {
    EXPECT_EQ(archive_write_add_filter_by_name(writer, filter.c_str()), ARCHIVE_OK) << filter;
  }
  archive_write_set_bytes_in_last_block(writer, 1);
  EXPECT_EQ(archive_write_open(writer, &out, nullptr, &AppendTo, nullptr), ARCHIVE_OK);
  for (const auto& [name, content] : members) {
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    EXPECT_EQ(archive_write_header(writer, entry), ARCHIVE_OK) << archive_error_string(writer);
    EXPECT_EQ(archive_write_data(writer, content.data(), content.size()),
              static_cast<la_ssize_t>(content.size()));
    archive_entry_free(entry);
  }
  EXPECT_EQ(archive_write_close(writer), ARCHIVE_OK);
  archive_write_free(writer);
  return out;
}

}  // namespace

std::string Pack(const std::string& format, const Members& members) {
  return Write(format, "", members);
}

std::string Compress(const std::string& filter, absl::string_view bytes) {
  return Write("raw", filter, {{"data", std::string(bytes)}});
}

}  // namespace tost
