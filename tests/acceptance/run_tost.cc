#include "tests/acceptance/run_tost.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tost::acceptance {
namespace {

void Redirect(const std::string& path, int descriptor) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(file, descriptor);
}

bool IsLogLine(const std::string& line) {
  return line.size() > 9 && line[0] == '[' &&
         std::isdigit(static_cast<unsigned char>(line[1])) != 0;
}

}  // namespace

std::vector<std::string> Outcome::ErrorLines() const {
  std::vector<std::string> lines;
  std::istringstream stream(error);
  for (std::string line; std::getline(stream, line);) {
    if (!IsLogLine(line)) lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> Words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

Outcome RunTost(const std::vector<std::string>& arguments) {
  return RunTostAndSignal(arguments, /*signal=*/0, /*milliseconds=*/0);
}

Outcome RunTostAndSignal(const std::vector<std::string>& arguments, int signal, int milliseconds) {
  const std::string folder = FreshFolder("output");
  const std::string out = folder + "/stdout", error = folder + "/stderr";
  std::vector<char*> argv;
  std::string program = TOST_BINARY;
  argv.push_back(program.data());
  std::vector<std::string> copies = arguments;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    Redirect(out, STDOUT_FILENO);
    Redirect(error, STDERR_FILENO);
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  if (signal != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    kill(child, signal);
  }
  int status = 0;
  waitpid(child, &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, ReadFile(out), ReadFile(error)};
}

void ExpectOneLineError(const Outcome& outcome, const std::vector<std::string>& parts) {
  EXPECT_NE(outcome.exit_code, 0) << outcome.out << outcome.error;
  EXPECT_LT(outcome.exit_code, 126) << outcome.error;
  const std::vector<std::string> lines = outcome.ErrorLines();
  ASSERT_EQ(lines.size(), 1u) << outcome.error;
  EXPECT_THAT(lines[0], testing::StartsWith("tost: "));
  EXPECT_THAT(lines[0], testing::Not(testing::HasSubstr("internal error")));
  for (const std::string& part : parts) EXPECT_THAT(lines[0], testing::HasSubstr(part));
}

std::string FreshFolder(const std::string& name) {
  static int count = 0;
  const std::string path = testing::TempDir() + "/tost_" + std::to_string(getpid()) + "_" +
                           std::to_string(count++) + "_" + name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
}

std::string ShakespeareData(int characters) {
  const std::string folder = FreshFolder("data");
  const std::string text =
      ReadFile(std::string(TOST_SOURCE_DIR) + "/data/samples/tinyshakespeare.txt");
  WriteFile(folder + "/text.txt", text.substr(0, static_cast<size_t>(characters)));
  const Outcome prepared =
      RunTost({"prepare", "characters", folder + "/text.txt", "--output", folder + "/tokens"});
  EXPECT_EQ(prepared.exit_code, 0) << prepared.error;
  return folder + "/tokens";
}

std::vector<std::string> TinyTraining(const std::string& output,
                                      const std::vector<std::string>& more) {
  static const std::string* const data = new std::string(ShakespeareData());
  std::vector<std::string> arguments =
      Words("train language --data " + *data + " --output " + output +
            " --layers 2 --heads 2 --width 16 --context 16 --global_batch 4 --steps 4 --warmup 2 "
            "--evaluate_every 0 --checkpoint_every 0");
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string TensorBytes(const std::string& path) {
  const std::string file = ReadFile(path);
  uint64_t header = 0;
  if (file.size() < sizeof(header)) return "";
  std::memcpy(&header, file.data(), sizeof(header));
  return file.substr(std::min<size_t>(file.size(), sizeof(header) + header));
}

}  // namespace tost::acceptance
