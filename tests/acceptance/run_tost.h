// Runs the tost binary as a user would.
#ifndef TOST_TESTS_ACCEPTANCE_RUN_TOST_H_
#define TOST_TESTS_ACCEPTANCE_RUN_TOST_H_

#include <string>
#include <vector>

namespace tost::acceptance {

struct Outcome {
  int exit_code = 0;  // 128 + n when signal n ended it
  std::string out;
  std::string error;

  // The lines of standard error that are not log lines (`[12:34:56] …`).
  std::vector<std::string> ErrorLines() const;
};

// The words of a command line without quotes: "--steps 20" gives {"--steps", "20"}.
std::vector<std::string> Words(const std::string& text);

// Each argument reaches the program as it is; no shell is between.
Outcome RunTost(const std::vector<std::string>& arguments);

// Starts the program, sends it `signal` after `milliseconds`, and waits for its end.
Outcome RunTostAndSignal(const std::vector<std::string>& arguments, int signal, int milliseconds);

// Expects a failure of the user's making: a non-zero exit code, one line on standard error that
// begins with "tost: " and contains every one of `parts`, and no sign of an internal error.
void ExpectOneLineError(const Outcome& outcome, const std::vector<std::string>& parts);

// A fresh folder below the test's temporary folder.
std::string FreshFolder(const std::string& name);

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& bytes);

// A folder of token files from the first `characters` of Tiny Shakespeare, made once per process.
std::string ShakespeareData(int characters = 20000);

// A training command for a model that takes a fraction of a second: 2 layers, 16 wide, context 16,
// 4 sequences per update. `more` is appended and so wins.
std::vector<std::string> TinyTraining(const std::string& output,
                                      const std::vector<std::string>& more = {});

// The tensors of a safetensors file as bytes, without its metadata.
std::string TensorBytes(const std::string& path);

}  // namespace tost::acceptance

#endif  // TOST_TESTS_ACCEPTANCE_RUN_TOST_H_
