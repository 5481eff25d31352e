// Picture data sets for tests: records, MATLAB files and lists as the sets' distributors made them.
#ifndef TOST_TESTS_DATA_TEST_SETS_H_
#define TOST_TESTS_DATA_TEST_SETS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/data/test_archives.h"

namespace tost {

// A record of CIFAR: the label bytes, then 3072 pixel bytes first, first + 1, … modulo 256.
std::string CifarRecord(const std::vector<int>& labels, int first = 0);

// `count` records of CIFAR-10, or, with `cifar100`, CIFAR-100, in which all classes occur in turn
// (fine labels with their coarse ones).
std::string CifarRecords(int count, bool cifar100 = false);

// A variable of a MATLAB 5 file: a matrix of `rows` rows (the values column by column).
struct MatVariable {
  enum Type { kUint8, kUint16, kDouble, kChar };
  std::string name;
  std::vector<int> values;
  Type type = kUint16;
  int rows = 1;
};

// The bytes of a file with these variables, not compressed.
std::string MatFile(const std::vector<MatVariable>& variables, bool big_endian = false);
// The same with compressed variables, by libmatio.
std::string CompressedMatFile(const std::vector<MatVariable>& variables);

// Writes the files below `folder`, making folders as needed.
void WriteTree(const std::string& folder, const Members& files);

// Flowers-102 with the labels of pictures 1, 2, … and these splits; all pictures are there, with
// their names as content.
struct Flowers {
  std::vector<int> labels, train, validation, test;
};
Members FlowersFiles(const Flowers& flowers);

// The numbers first … last.
std::vector<int> Range(int first, int last);

}  // namespace tost

#endif  // TOST_TESTS_DATA_TEST_SETS_H_
