#include "ops/tssa.h"

#include "absl/strings/str_cat.h"
#include "autograd/tape.h"
#include "ops/cpu/tssa.h"

namespace tost::ops {

constinit Kernel<TssaFn> tssa_kernel{"tssa", &cpu::Tssa};
constinit Kernel<TssaBackwardFn> tssa_backward_kernel{"tssa_backward", &cpu::TssaBackward};
constinit Kernel<CausalTssaFn> causal_tssa_kernel{"causal_tssa", &cpu::CausalTssa};
constinit Kernel<TssaBackwardFn> causal_tssa_backward_kernel{"causal_tssa_backward",
                                                             &cpu::CausalTssaBackward};
constinit Kernel<CausalTssaStepFn> causal_tssa_step_kernel{"causal_tssa_step",
                                                           &cpu::CausalTssaStep};

namespace {

absl::Status Wrong(const char* op, const char* rule, const Shape& w, const Shape& temp) {
  return absl::InvalidArgumentError(
      absl::StrCat(op, ": ", rule, " (w ", w.ToString(), ", temp ", temp.ToString(), ")"));
}

absl::StatusOr<TssaDims> DimsOf(const char* op, const Shape& w, const Shape& temp) {
  if (w.rank() != 3) return Wrong(op, "w must be [batch, tokens, width]", w, temp);
  if (temp.rank() != 2 || temp[1] != 1) return Wrong(op, "temp must be [heads, 1]", w, temp);
  if (w.numel() == 0 || temp[0] == 0) return Wrong(op, "an extent is 0", w, temp);
  if (w[2] % temp[0] != 0) {
    return Wrong(op, "the width must be a multiple of the number of heads", w, temp);
  }
  return TssaDims{w[0], w[1], temp[0], w[2] / temp[0]};
}

absl::Status CheckMask(const char* op, const Shape& mask, const Shape& expected) {
  if (mask == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(op, ": mask is ", mask.ToString(), " but must be ", expected.ToString()));
}

const Shape* ShapeOf(const Tensor& mask) { return mask.defined() ? &mask.shape() : nullptr; }

// temp, denom_bias, mask and states come in the type of the statistics.
void CheckDType(const char* op, const char* operand, const Tensor& x, const Tensor& w) {
  TOST_CHECK(!x.defined() || x.dtype() == AccumulateDType(w.dtype()))
      << op << ": " << operand << " is " << x.dtype() << " but w is " << w.dtype()
      << ", which needs " << AccumulateDType(w.dtype());
}

TssaInputs InputsOf(const char* op, const TssaDims& dims, const Tensor& w, const Tensor& temp,
                    const Tensor& denom_bias, const Tensor& mask, int64_t position = 0,
                    bool normalized = true) {
  CheckDType(op, "temp", temp, w);
  CheckDType(op, "denom_bias", denom_bias, w);
  CheckDType(op, "mask", mask, w);
  return {dims,     w.Detached(), temp.Detached(), denom_bias.Detached(), mask.Detached(),
          position, normalized};
}

void CheckState(const char* op, const CausalTssaState& state, const TssaInputs& in) {
  const TssaDims& dims = in.dims;
  const Shape channels{dims.batch, dims.width()}, heads{dims.batch, dims.heads};
  TOST_CHECK(state.energy.shape() == channels && state.weighted_energy.shape() == channels &&
             state.membership.shape() == heads)
      << op << ": the state is for channels " << state.energy.shape() << " and heads "
      << state.membership.shape() << ", the operands have " << channels << " and " << heads;
  CheckDType(op, "state", state.energy, in.w);
}

// Calls run(gradient) with the place of an operand's gradient, or with none if nobody wants it.
template <class Run>
void WithGradient(const Saved& operand, Run&& run) {
  if (!operand.wants_gradient()) return run(GradientOut{});
  operand.Gradient([&](Tensor& out, bool add) { run(GradientOut{&out, add}); });
}

}  // namespace

absl::StatusOr<TssaDims> TssaShape(const Shape& w, const Shape& temp, const Shape* mask) {
  TOST_ASSIGN_OR_RETURN(const TssaDims dims, DimsOf("Tssa", w, temp));
  if (mask != nullptr) {
    TOST_RETURN_IF_ERROR(CheckMask("Tssa", *mask, {dims.batch, 1, dims.width()}));
  }
  return dims;
}

absl::StatusOr<TssaDims> CausalTssaShape(const Shape& w, const Shape& temp, const Shape& denom_bias,
                                         int64_t position, const Shape* mask) {
  TOST_ASSIGN_OR_RETURN(const TssaDims dims, DimsOf("CausalTssa", w, temp));
  if (denom_bias.rank() != 3 || denom_bias[0] != dims.heads || denom_bias[2] != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("CausalTssa: denom_bias must be [heads, block, 1] with ", dims.heads,
                     " heads, not ", denom_bias.ToString()));
  }
  if (position < 0 || position + dims.tokens > denom_bias[1]) {
    return absl::InvalidArgumentError(absl::StrCat("CausalTssa: positions ", position, " to ",
                                                   position + dims.tokens - 1, " but denom_bias ",
                                                   denom_bias.ToString(), " has ", denom_bias[1]));
  }
  if (mask != nullptr) TOST_RETURN_IF_ERROR(CheckMask("CausalTssa", *mask, w));
  return dims;
}

Tensor Tssa(const Tensor& w, const Tensor& temp, const Tensor& mask, const TssaOptions& options) {
  const TssaDims dims = TOST_CHECK_VALUE(TssaShape(w.shape(), temp.shape(), ShapeOf(mask)));
  Tensor y = Tensor::Empty(w.shape(), w.dtype(), w.device());
  TssaSaved saved;
  tssa_kernel.On(w.device().type)(
      InputsOf("Tssa", dims, w, temp, {}, mask, /*position=*/0, options.normalized), y, saved);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record(
      "tssa", {w.grad(), temp.grad()}, y,
      [dims, options, saved, w = Saved(w), temp = Saved(temp),
       mask = Saved(mask)](const Tensor& dy) {
        const TssaInputs in{.dims = dims,
                            .w = w.value(),
                            .temp = temp.value(),
                            .mask = mask.value(),
                            .normalized = options.normalized};
        WithGradient(w, [&](GradientOut dw) {
          WithGradient(temp, [&](GradientOut dtemp) {
            tssa_backward_kernel.On(dy.device().type)(in, saved, dy, {dw, dtemp, {}});
          });
        });
      });
}

Tensor CausalTssa(const Tensor& w, const Tensor& temp, const Tensor& denom_bias,
                  const Tensor& mask) {
  const TssaDims dims = TOST_CHECK_VALUE(
      CausalTssaShape(w.shape(), temp.shape(), denom_bias.shape(), 0, ShapeOf(mask)));
  Tensor y = Tensor::Empty(w.shape(), w.dtype(), w.device());
  TssaSaved saved;
  causal_tssa_kernel.On(w.device().type)(InputsOf("CausalTssa", dims, w, temp, denom_bias, mask),
                                         nullptr, y, saved);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record(
      "causal_tssa", {w.grad(), temp.grad(), denom_bias.grad()}, y,
      [dims, saved, w = Saved(w), temp = Saved(temp), bias = Saved(denom_bias),
       mask = Saved(mask)](const Tensor& dy) {
        const TssaInputs in{dims, w.value(), temp.value(), bias.value(), mask.value()};
        WithGradient(w, [&](GradientOut dw) {
          WithGradient(temp, [&](GradientOut dtemp) {
            WithGradient(bias, [&](GradientOut dbias) {
              causal_tssa_backward_kernel.On(dy.device().type)(in, saved, dy, {dw, dtemp, dbias});
            });
          });
        });
      });
}

Tensor TssaMemberships(const Tensor& w, const Tensor& temp, const TssaOptions& options) {
  const TssaDims dims = TOST_CHECK_VALUE(TssaShape(w.shape(), temp.shape()));
  Tensor y = Tensor::Empty(w.shape(), w.dtype(), w.device());
  TssaSaved saved;
  tssa_kernel.On(w.device().type)(
      InputsOf("TssaMemberships", dims, w, temp, {}, {}, /*position=*/0, options.normalized), y,
      saved);
  return saved.memberships;
}

Tensor CausalTssaMemberships(const Tensor& w, const Tensor& temp, const Tensor& denom_bias) {
  const TssaDims dims =
      TOST_CHECK_VALUE(CausalTssaShape(w.shape(), temp.shape(), denom_bias.shape()));
  Tensor y = Tensor::Empty(w.shape(), w.dtype(), w.device());
  TssaSaved saved;
  causal_tssa_kernel.On(w.device().type)(
      InputsOf("CausalTssaMemberships", dims, w, temp, denom_bias, {}), nullptr, y, saved);
  return saved.memberships;
}

CausalTssaState CausalTssaState::Zeros(int64_t batch, int64_t heads, int64_t head_dim, DType dtype,
                                       Device device) {
  const Shape channels{batch, heads * head_dim};
  return {Tensor::Zeros(channels, dtype, device), Tensor::Zeros(channels, dtype, device),
          Tensor::Zeros({batch, heads}, dtype, device)};
}

Tensor CausalTssaStep(CausalTssaState& state, const Tensor& w, const Tensor& temp,
                      const Tensor& denom_bias, int64_t position) {
  TOST_CHECK(w.shape().rank() == 2)
      << "CausalTssaStep: w must be [batch, width], not " << w.shape();
  const Shape one_token{w.shape()[0], 1, w.shape()[1]};
  const TssaDims dims =
      TOST_CHECK_VALUE(CausalTssaShape(one_token, temp.shape(), denom_bias.shape(), position));
  Tensor y = Tensor::Empty(w.shape(), w.dtype(), w.device());
  const TssaInputs in = InputsOf("CausalTssaStep", dims, w, temp, denom_bias, {}, position);
  CheckState("CausalTssaStep", state, in);
  causal_tssa_step_kernel.On(w.device().type)(in, state, y);
  return y;
}

Tensor CausalTssaPrefill(CausalTssaState& state, const Tensor& w, const Tensor& temp,
                         const Tensor& denom_bias, int64_t position) {
  const TssaDims dims =
      TOST_CHECK_VALUE(CausalTssaShape(w.shape(), temp.shape(), denom_bias.shape(), position));
  Tensor y = Tensor::Empty(w.shape(), w.dtype(), w.device());
  const TssaInputs in = InputsOf("CausalTssaPrefill", dims, w, temp, denom_bias, {}, position);
  CheckState("CausalTssaPrefill", state, in);
  TssaSaved saved;
  causal_tssa_kernel.On(w.device().type)(in, &state, y, saved);
  return y;
}

}  // namespace tost::ops
