// What the access checker is told. Null where it is not linked in.
#ifndef TOST_TESTS_SIMT_CHECKS_H_
#define TOST_TESTS_SIMT_CHECKS_H_

#include <cstddef>

namespace tost::simt {

struct Checks {
  void (*begin_launch)();
  void (*begin_block)();
  void (*atomic)(const void* address, size_t bytes, const void* site);
  // Device memory: contents forgotten; read or written by something other than a kernel.
  void (*forget)(const void* begin, size_t bytes);
  void (*read)(const void* begin, size_t bytes);
  void (*write)(const void* begin, size_t bytes);
};
extern const Checks* checks;

}  // namespace tost::simt

#endif  // TOST_TESTS_SIMT_CHECKS_H_
