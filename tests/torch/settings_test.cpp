// What the settings of torch/module may say, and what libtorch's long errors are cut to.
#include <apps/torch/replica_tensors.hpp>
#include <apps/torch/torch_errors.hpp>
#include <support/catch.hpp>

using gpuactors::Errc;
using serve::DataType;
using torchscript::parse_inputs;
using torchscript::parse_rows;

namespace {

std::string refusal(const std::string& text) {
  const auto inputs = parse_inputs(text);
  REQUIRE_FALSE(inputs);
  CHECK(inputs.error().code() == Errc::invalid_argument);
  return inputs.error().message();
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("inputs have names, datatypes and the shape of a row, joined by characters that mean nothing to a shell") {
  const auto inputs = parse_inputs("image:FP32:3x224x224+length:INT64+mask:BOOL:7");
  REQUIRE(inputs);
  REQUIRE(inputs->size() == 3);
  CHECK((*inputs)[0].name == "image");
  CHECK((*inputs)[0].type == DataType::fp32);
  CHECK((*inputs)[0].row_shape == std::vector<std::int64_t>{3, 224, 224});
  CHECK((*inputs)[0].row_bytes() == 3 * 224 * 224 * 4);
  CHECK((*inputs)[1].row_shape.empty());
  CHECK((*inputs)[1].row_bytes() == 8);
  CHECK((*inputs)[2].row_bytes() == 7);
  CHECK(to_string((*inputs)[0]) == "image:FP32:3x224x224");
  CHECK(to_string((*inputs)[1]) == "length:INT64");
}

TEST_CASE("outputs may have names alone") {
  const auto outputs = parse_rows("outputs", "scores+boxes:FP32:4");
  REQUIRE(outputs);
  CHECK_FALSE((*outputs)[0].type);
  CHECK((*outputs)[1].type == DataType::fp32);
  CHECK(has(refusal("scores"), "\"scores\" has no datatype"));
}

TEST_CASE("what is wrong with a setting is said with what would be right") {
  CHECK(has(refusal(""), "a tensor whose name has 0 bytes"));
  CHECK(has(refusal("x:FP32+"), "a tensor whose name has 0 bytes"));
  CHECK(has(refusal(std::string(129, 'x') + ":FP32"), "129 bytes: 1 to 128 are allowed"));
  CHECK(has(refusal("x:FP33:4"), "\"x\" is of the datatype \"FP33\": BOOL, UINT8"));
  CHECK(has(refusal("x:BYTES"), "BYTES"));
  CHECK(has(refusal("x:UINT64"), "UINT64"));
  CHECK(has(refusal("x:FP32:"), "a dimension \"\""));
  CHECK(has(refusal("x:FP32:3,4"), "a dimension \"3,4\""));
  CHECK(has(refusal("x:FP32:0"), "a dimension \"0\""));
  CHECK(has(refusal("x:FP32:-1"), "a dimension \"-1\""));
  CHECK(has(refusal("x:FP32:3x"), "a dimension \"\""));
  CHECK(has(refusal("x:FP32:99999999999999999999"), "a dimension"));
  CHECK(has(refusal("x:FP32:67108865"), "more than 268435456 bytes"));
  CHECK(has(refusal("x:FP32:4294967296x4294967296x2"), "more than 268435456 bytes"));
  CHECK(has(refusal("x:FP32:1x1x1x1x1x1x1x1"), "8 dimensions: at most 7"));
  CHECK(has(refusal("x:FP32+x:FP32"), "\"x\" twice"));
  std::string many = "x0:FP32";
  for (int i = 1; i < 17; ++i)
    many += "+x" + std::to_string(i) + ":FP32";
  CHECK(has(refusal(many), "more than 16 tensors"));
}

TEST_CASE("a row of the size of a message is allowed") {
  CHECK(parse_inputs("x:FP32:1048576"));
}

TEST_CASE("of a text of libtorch, the sentence stays") {
  using torchscript::last_sentence;
  CHECK(
      last_sentence("The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript (most "
                    "recent call last):\n  File \"m.py\", line 4, in forward\n    return f(x)\n           ~ <--- HERE\n"
                    "RuntimeError: mat1 and mat2\n shapes differ\n")
      == "mat1 and mat2 shapes differ");
  CHECK(last_sentence("  expected\nmore ") == "expected more");
  CHECK(last_sentence("").empty());
}
