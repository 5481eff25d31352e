// SHA-256, by which data, tokenizers and files are told apart.
#ifndef TOST_DATA_DIGEST_H_
#define TOST_DATA_DIGEST_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tost::data {

// A digest of bytes that arrive in pieces (OpenSSL's).
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Append(absl::string_view bytes);
  std::string Hex();  // of all bytes so far, 64 digits; nothing may be appended afterwards

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string Sha256Of(absl::string_view bytes);
absl::StatusOr<std::string> Sha256OfFile(const std::string& path);

}  // namespace tost::data

#endif  // TOST_DATA_DIGEST_H_
