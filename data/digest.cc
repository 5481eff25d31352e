#include "data/digest.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "absl/strings/escaping.h"
#include "autograd/base/errors.h"
#include "data/atomic_file.h"

namespace tost::data {

struct Sha256::State {
  State() { TOST_CHECK(EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1); }
  ~State() { EVP_MD_CTX_free(context); }

  EVP_MD_CTX* context = EVP_MD_CTX_new();
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;

void Sha256::Append(absl::string_view bytes) {
  TOST_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  TOST_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &size) == 1);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

std::string Sha256Of(absl::string_view bytes) {
  Sha256 digest;
  digest.Append(bytes);
  return digest.Hex();
}

absl::StatusOr<std::string> Sha256OfFile(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return FileError("cannot read", path, errno);
  Sha256 digest;
  std::vector<char> buffer(1 << 20);
  ssize_t count = 0;
  while ((count = read(descriptor, buffer.data(), buffer.size())) > 0 ||
         (count < 0 && errno == EINTR)) {
    if (count > 0) digest.Append({buffer.data(), static_cast<size_t>(count)});
  }
  const int error = errno;
  close(descriptor);
  if (count < 0) return FileError("cannot read", path, error);
  return digest.Hex();
}

}  // namespace tost::data
