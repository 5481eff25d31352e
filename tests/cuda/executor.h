// Who executes the kernels: implemented by simt_executor.cc and gpu_executor.cc.
#ifndef TOST_TESTS_CUDA_EXECUTOR_H_
#define TOST_TESTS_CUDA_EXECUTOR_H_

#include <string>
#include <vector>

namespace tost::executor {

bool IsAvailable();  // there is a device
bool HasDouble();
bool ChecksEveryAccess();
std::vector<std::string> ThreadOrders();
void UseThreadOrder(const std::string& order);

}  // namespace tost::executor

#endif  // TOST_TESTS_CUDA_EXECUTOR_H_
