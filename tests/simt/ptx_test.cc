// The interpreter of PTX: instructions against their meaning.
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "autograd/base/bfloat16.h"
#include "gtest/gtest.h"
#include "tests/simt/ptx_program.h"

namespace tost::simt::ptx {
namespace {

// The first 8 bytes of local memory, at %rd3, after these instructions; a and b are in %rd1 and
// %rd2, %r1 and %r2, %f1 and %f2.
uint64_t LocalAfter(const std::string& instructions, uint64_t a, uint64_t b) {
  const Module module(
      ".version 9.0\n.visible .entry k(\n .param .u64 k_param_0,\n .param .u64 k_param_1\n)\n{\n"
      ".reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<10>;\n"
      ".local .align 16 .b8 depot[16];\n"
      "ld.param.u64 %rd1, [k_param_0]; ld.param.u64 %rd2, [k_param_1];\n"
      "cvt.u32.u64 %r1, %rd1; cvt.u32.u64 %r2, %rd2; // a comment; with a semicolon\n"
      "mov.b32 %f1, %r1; mov.b32 %f2, %r2;\n"
      "mov.u64 %rd3, depot; mov.u64 %rd4, 0; st.u64 [%rd3], %rd4;\n" +
      instructions + ";\nret;\n}\n");
  const std::shared_ptr<const Program> program = module.Find("k");
  const uint64_t parameters[2] = {a, b};
  Frame frame(*program, reinterpret_cast<const unsigned char*>(parameters));
  ptx::Run(frame);
  uint64_t result = 0;
  std::memcpy(&result, frame.local.data(), sizeof(result));
  return result;
}

// What instructions leave in the register of them that ends with an 8.
uint64_t ResultOf(const std::string& instructions, uint64_t a, uint64_t b = 0) {
  for (const auto& [target, store] : {std::pair{"%rd8", "st.u64"}, std::pair{"%rs8", "st.u16"},
                                      std::pair{"%r8", "st.u32"}, std::pair{"%f8", "st.f32"}}) {
    if (instructions.find(target) == std::string::npos) continue;
    return LocalAfter(instructions + "; " + store + " [%rd3], " + target, a, b);
  }
  ADD_FAILURE() << "no target in " << instructions;
  return 0;
}

uint64_t Bits(float x) { return std::bit_cast<uint32_t>(x); }
float AsFloat(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }

TEST(Ptx, Integers) {
  EXPECT_EQ(ResultOf("add.s32 %r8, %r1, %r2", 0xffffffff, 2), 1u);
  EXPECT_EQ(ResultOf("sub.s32 %r8, %r1, 5", 3), 0xfffffffeu);
  EXPECT_EQ(ResultOf("mul.lo.s32 %r8, %r1, -3", 7), static_cast<uint32_t>(-21));
  EXPECT_EQ(ResultOf("mul.hi.u64 %rd8, %rd1, %rd2", ~uint64_t{0}, 16), 15u);
  EXPECT_EQ(ResultOf("mul.wide.s32 %rd8, %r1, %r2", static_cast<uint32_t>(-2), 3),
            static_cast<uint64_t>(-6));
  EXPECT_EQ(ResultOf("mul.wide.u32 %rd8, %r1, %r2", 0xffffffff, 2), 0x1fffffffeu);
  EXPECT_EQ(ResultOf("mad.lo.s32 %r8, %r1, %r2, 7", 5, 6), 37u);
  EXPECT_EQ(ResultOf("div.s32 %r8, %r1, %r2", static_cast<uint32_t>(-7), 2),
            static_cast<uint32_t>(-3));
  EXPECT_EQ(ResultOf("rem.s32 %r8, %r1, %r2", static_cast<uint32_t>(-7), 2),
            static_cast<uint32_t>(-1));
  EXPECT_EQ(ResultOf("min.s32 %r8, %r1, %r2", static_cast<uint32_t>(-7), 2),
            static_cast<uint32_t>(-7));
  EXPECT_EQ(ResultOf("max.u32 %r8, %r1, %r2", static_cast<uint32_t>(-7), 2),
            static_cast<uint32_t>(-7));
}

TEST(Ptx, Bits) {
  EXPECT_EQ(ResultOf("shl.b32 %r8, %r1, 32", 1), 0u);
  EXPECT_EQ(ResultOf("shr.s32 %r8, %r1, 40", 0x80000000), 0xffffffffu);
  EXPECT_EQ(ResultOf("shr.u32 %r8, %r1, 4", 0x80000000), 0x08000000u);
  EXPECT_EQ(ResultOf("lop3.b32 %r8, %r1, %r2, 240, 0x96", 0b1100, 0b1010), 0b11110110u);
  EXPECT_EQ(ResultOf("prmt.b32 %r8, %r1, %r2, 0x7632", 0x33221100, 0x77665544), 0x77663322u);
  EXPECT_EQ(ResultOf("shf.l.wrap.b32 %r8, %r1, %r2, 8", 0xaabbccdd, 0x11223344), 0x223344aau);
  EXPECT_EQ(ResultOf("bfe.u32 %r8, %r1, 4, 8", 0x12345), 0x34u);
  EXPECT_EQ(ResultOf("bfe.s32 %r8, %r1, 4, 4", 0xf0), 0xffffffffu);
  EXPECT_EQ(ResultOf("popc.b32 %r8, %r1", 0xf0f0), 8u);
  EXPECT_EQ(ResultOf("clz.b32 %r8, %r1", 0xffff), 16u);
  EXPECT_EQ(ResultOf("mov.b64 %rd8, {%r1, %r2}", 5, 7), (uint64_t{7} << 32) + 5);
  EXPECT_EQ(ResultOf("mov.b64 {%r7, %r8}, %rd1", (uint64_t{7} << 32) + 5), 7u);
}

TEST(Ptx, Floats) {
  const float big = 16777217.0f * 3, small = 1e-3f;
  EXPECT_EQ(ResultOf("fma.rn.f32 %f8, %f1, %f2, %f1", Bits(big), Bits(small)),
            Bits(std::fma(big, small, big)));
  // 1 + 2⁻³⁰ lies above 1; towards minus infinity −1 − 2⁻³⁰ is the number below −1.
  EXPECT_EQ(ResultOf("fma.rm.f32 %f8, %f1, %f2, 0fBF800000", Bits(-0x1p-15f), Bits(0x1p-15f)),
            Bits(std::nextafter(-1.0f, -2.0f)));
  EXPECT_EQ(ResultOf("max.f32 %f8, %f1, %f2", Bits(NAN), Bits(2)), Bits(2));
  EXPECT_EQ(ResultOf("abs.f32 %f8, %f1", Bits(-3)), Bits(3));
  EXPECT_EQ(ResultOf("copysign.f32 %f8, %f1, %f2", Bits(-1), Bits(5)), Bits(-5));
  EXPECT_EQ(ResultOf("sqrt.rn.f32 %f8, %f1", Bits(2)), Bits(std::sqrt(2.0f)));
  EXPECT_NEAR(AsFloat(ResultOf("ex2.approx.ftz.f32 %f8, %f1", Bits(1.5f))), std::exp2(1.5f), 1e-6);
}

TEST(Ptx, Conversions) {
  EXPECT_EQ(ResultOf("cvt.rzi.s32.f32 %r8, %f1", Bits(-2.7f)), static_cast<uint32_t>(-2));
  EXPECT_EQ(ResultOf("cvt.rzi.s32.f32 %r8, %f1", Bits(1e20f)), 0x7fffffffu);
  EXPECT_EQ(ResultOf("cvt.rzi.s32.f32 %r8, %f1", Bits(NAN)), 0u);
  EXPECT_EQ(ResultOf("cvt.rni.f32.f32 %f8, %f1", Bits(2.5f)), Bits(2));
  EXPECT_EQ(ResultOf("cvt.rmi.f32.f32 %f8, %f1", Bits(-2.5f)), Bits(-3));
  EXPECT_EQ(ResultOf("cvt.sat.f32.f32 %f8, %f1", Bits(-2)), Bits(0));
  EXPECT_EQ(ResultOf("cvt.rn.f32.s32 %f8, %r1", static_cast<uint32_t>(-16777217)),
            Bits(-16777216.0f));
  EXPECT_EQ(ResultOf("cvt.s64.s32 %rd8, %r1", static_cast<uint32_t>(-2)),
            static_cast<uint64_t>(-2));
  EXPECT_EQ(ResultOf("cvt.rn.bf16.f32 %rs8, %f1", Bits(1.00390625f)),
            std::bit_cast<uint16_t>(bfloat16(1.00390625f)));
  EXPECT_EQ(ResultOf("cvt.rn.bf16x2.f32 %r8, %f1, %f2", Bits(1), Bits(2)), 0x3f804000u);
}

TEST(Ptx, PredicatesAndBranches) {
  const std::string count =
      "mov.u32 %r8, 0;\n$again:\nadd.s32 %r8, %r8, 1;\nsetp.lt.s32 %p1, %r8, %r1;\n"
      "@%p1 bra $again;\n@!%p1 add.s32 %r8, %r8, 100";
  EXPECT_EQ(ResultOf(count, 5), 105u);
  const auto holds = [](const std::string& relation, float a, float b) {
    return ResultOf("setp." + relation + ".f32 %p1, %f1, %f2; selp.b32 %r8, 1, 0, %p1", Bits(a),
                    Bits(b)) == 1;
  };
  EXPECT_TRUE(holds("lt", 1, 2));
  EXPECT_FALSE(holds("lt", NAN, 2));
  EXPECT_TRUE(holds("ltu", NAN, 2));
  EXPECT_FALSE(holds("ne", NAN, 2));
  EXPECT_TRUE(holds("neu", NAN, 2));
  EXPECT_TRUE(holds("nan", NAN, 2));
  EXPECT_TRUE(holds("num", 1, 2));
}

TEST(Ptx, CallsFunctions) {
  const Module module(
      ".func (.param .b64 func_retval0) twice_plus(\n .param .b64 twice_plus_param_0,\n"
      " .param .b64 twice_plus_param_1\n)\n{\n.reg .b64 %rd<5>;\n"
      "ld.param.u64 %rd1, [twice_plus_param_0]; ld.param.u64 %rd2, [twice_plus_param_1];\n"
      "shl.b64 %rd3, %rd1, 1; add.s64 %rd4, %rd3, %rd2; st.param.b64 [func_retval0+0], %rd4; "
      "ret;\n}\n"
      ".visible .entry k()\n{\n.reg .b64 %rd<9>;\n.local .align 8 .b8 depot[8];\n"
      "{ .reg .b32 temp_param_reg; .param .b64 param0; st.param.b64 [param0+0], 20;\n"
      ".param .b64 param1; st.param.b64 [param1+0], 2; .param .b64 retval0;\n"
      "call.uni (retval0), twice_plus, ( param0, param1 ); ld.param.b64 %rd1, [retval0+0]; }\n"
      "mov.u64 %rd2, depot; st.u64 [%rd2], %rd1; ret;\n}\n");
  const std::shared_ptr<const Program> program = module.Find("k");
  ASSERT_NE(program, nullptr);
  Frame frame(*program, nullptr);
  ptx::Run(frame);
  EXPECT_EQ(frame.local[0], 42);
}

TEST(PtxDeathTest, AnUnknownInstructionIsNamed) {
  EXPECT_DEATH(ResultOf("tanh.approx.f32 %f8, %f1", 0), "tanh.approx.f32");
}

}  // namespace
}  // namespace tost::simt::ptx
