// Defects in words.
#ifndef TOST_TESTS_SIMT_REPORT_H_
#define TOST_TESTS_SIMT_REPORT_H_

#include <string>

namespace tost::simt {

// "tost::cuda::LayerNorm<float, 4>", or "kernel" when the program exports no such symbol.
std::string KernelName(const void* kernel);
// As the linker knows it, or "".
std::string MangledName(const void* kernel);
// "file:line" of an instruction, or "?" without debugging information.
std::string SourceLine(const void* instruction);

// Prints the line and ends the process, or keeps it: see KeepDefects in emulator.h.
void ReportDefect(const std::string& what);
bool DefectIsKept();

}  // namespace tost::simt

#endif  // TOST_TESTS_SIMT_REPORT_H_
