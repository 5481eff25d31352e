// `tost data check` as a user sees it: what is wrong with a set is one line.
#include <algorithm>

#include "data/image_write.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/acceptance/run_tost.h"
#include "tests/data/test_images.h"
#include "tests/data/test_sets.h"

namespace tost::acceptance {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Outcome Check(const std::string& data, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"data", "check", "--data", data};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunTost(arguments);
}

TEST(D18, DataCheckPrintsSizesAndProtocol) {
  const std::string folder = FreshFolder("cifar");
  WriteTree(folder, {{"data_batch_1.bin", CifarRecords(40)}, {"test_batch.bin", CifarRecords(10)}});
  ExpectOneLineError(Check(folder), {folder, "40 training and 10 test", "--any_sizes"});
  const Outcome outcome = Check(folder, {"--any_sizes", "--validation_fraction", "0.25"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("protocol cifar10, official with other sizes"),
                                   HasSubstr("training: 30 pictures of 10 classes, 3 each"),
                                   HasSubstr("validation: 10 pictures of 10 classes, 1 each")));
  EXPECT_THAT(outcome.out, HasSubstr("10 pictures of the test part are in the training"));
}

TEST(D21, DataCheckListsBadFilesWithTheReason) {
  const std::string folder = FreshFolder("folders");
  const std::string jpeg = EncodeJpeg(DrawnImage(40, 40));
  WriteTree(folder, {{"train/n0/ok.JPEG", jpeg},
                     {"train/n1/ok.JPEG", data::EncodePng(DrawnImage(20, 20))},
                     {"train/n1/bad.JPEG", jpeg.substr(0, jpeg.size() / 2)},
                     {"train/n1/empty.JPEG", ""},
                     {"train/n1/Thumbs.db", "x"},
                     {"train/n1/.hidden.JPEG", "x"}});
  const Outcome outcome = Check(folder);
  EXPECT_EQ(outcome.exit_code, 1);
  ExpectOneLineError(outcome, {folder, "2 pictures cannot be decoded"});
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("train/n1/bad.JPEG: "), HasSubstr("train/n1/empty.JPEG: ")));
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("1 other files ignored (train/n1/Thumbs.db)"),
                                   HasSubstr("hidden files passed over: 1")));
}

TEST(E1, WrongDataAreOneLine) {
  const std::string folder = FreshFolder("wrong");
  WriteTree(folder, {{"setid.mat", "<!DOCTYPE html>"}, {"imagelabels.mat", "<!DOCTYPE html>"}});
  ExpectOneLineError(Check(folder), {"imagelabels.mat", "not a MATLAB 5 file"});
  ExpectOneLineError(Check(folder + "/nothing"), {"cannot read", "nothing"});
  ExpectOneLineError(Check(folder, {"--format", "mnist"}), {"--format mnist"});
}

}  // namespace
}  // namespace tost::acceptance
