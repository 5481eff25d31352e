#include "data/gpt2_tables.h"

// The assembler copies the files: no generated source, and nothing for the compiler to parse.
// TOST_GPT2_FOLDER is theirs.
asm(".pushsection .rodata\n"
    "tost_gpt2_tokens:\n"
    ".incbin \"" TOST_GPT2_FOLDER
    "/encoder.json\"\n"
    "tost_gpt2_tokens_end:\n"
    "tost_gpt2_merges:\n"
    ".incbin \"" TOST_GPT2_FOLDER
    "/vocab.bpe\"\n"
    "tost_gpt2_merges_end:\n"
    ".popsection\n");

extern "C" {
extern const char tost_gpt2_tokens[];
extern const char tost_gpt2_tokens_end[];
extern const char tost_gpt2_merges[];
extern const char tost_gpt2_merges_end[];
}

namespace tost::data {

absl::string_view Gpt2TokensText() {
  return {tost_gpt2_tokens, static_cast<size_t>(tost_gpt2_tokens_end - tost_gpt2_tokens)};
}

absl::string_view Gpt2MergesText() {
  return {tost_gpt2_merges, static_cast<size_t>(tost_gpt2_merges_end - tost_gpt2_merges)};
}

}  // namespace tost::data
