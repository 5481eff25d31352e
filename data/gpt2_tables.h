// GPT-2's encoder.json and vocab.bpe (data/gpt2/) as parts of the program.
#ifndef TOST_DATA_GPT2_TABLES_H_
#define TOST_DATA_GPT2_TABLES_H_

#include "absl/strings/string_view.h"

namespace tost::data {

absl::string_view Gpt2TokensText();  // encoder.json
absl::string_view Gpt2MergesText();  // vocab.bpe

}  // namespace tost::data

#endif  // TOST_DATA_GPT2_TABLES_H_
