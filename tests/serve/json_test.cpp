#include "requests.hpp"

#include <apps/serve/http/route.hpp>
#include <apps/serve/protocol/access.hpp>
#include <apps/serve/protocol/parameters.hpp>
#include <support/catch.hpp>
#include <support/temporary_folder.hpp>

#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <limits>

using namespace serve;
using namespace serve::test;
using gpuactors::Errc;

namespace {

std::string refusal_of(std::string_view json, std::string_view raw = {}) {
  const auto result = read(json, raw);
  if (result)
    return "";
  CHECK(result.error().code() == Errc::invalid_argument);
  return result.error().message();
}

bool says(const std::string& sentence, std::string_view words) {
  INFO(sentence);
  return sentence.find(words) != std::string::npos;
}

NamedTensor only_input(std::string_view json) {
  auto result = read(json);
  if (!result)
    FAIL(result.error().message());
  REQUIRE(result->request.inputs.size() == 1);
  return result->request.inputs[0];
}

} // namespace

TEST_CASE("a request in JSON becomes tensors, flat or nested, in any order of its fields") {
  const std::vector<float> expected{1, 2, 3, 4, 5, 6};
  for (const auto* data : {"[1,2,3,4,5,6]", "[[1,2,3],[4,5,6]]", "[[1.0, 2e0, 3],[4,5,6.0]]"}) {
    const auto x = only_input(one_input("FP32", "[2,3]", data));
    CHECK(x.name == "x");
    CHECK(x.shape == std::vector<std::int64_t>{2, 3});
    CHECK(values_of<float>(x.data) == expected);
  }
  const auto late = only_input(R"({"inputs":[{"data":[[1,2,3],[4,5,6]],"shape":[2,3],"datatype":"FP32","name":"x"}]})");
  CHECK(values_of<float>(late.data) == expected);
}

TEST_CASE("every type that JSON has elements of is read") {
  CHECK(values_of<std::uint8_t>(only_input(one_input("BOOL", "[4]", "[true,false,1,0]")).data)
        == std::vector<std::uint8_t>{1, 0, 1, 0});
  CHECK(values_of<std::int8_t>(only_input(one_input("INT8", "[2]", "[-128,127]")).data)
        == std::vector<std::int8_t>{-128, 127});
  CHECK(values_of<std::uint16_t>(only_input(one_input("UINT16", "[2]", "[0,65535]")).data)
        == std::vector<std::uint16_t>{0, 65'535});
  CHECK(values_of<std::int64_t>(only_input(one_input("INT64", "[1]", "[-9223372036854775808]")).data)
        == std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min()});
  CHECK(values_of<std::uint64_t>(only_input(one_input("UINT64", "[1]", "[18446744073709551615]")).data)
        == std::vector<std::uint64_t>{std::numeric_limits<std::uint64_t>::max()});
  CHECK(values_of<double>(only_input(one_input("FP64", "[2]", "[-1e300,7]")).data) == std::vector<double>{-1e300, 7});
  const auto text = only_input(one_input("BYTES", "[2]", R"(["a\u00e9",""])"));
  CHECK(values_of<char>(text.data) == std::vector<char>{3, 0, 0, 0, 'a', '\xc3', '\xa9', 0, 0, 0, 0});
}

TEST_CASE("elements of another type, beyond a type's range or too many of them are refused with their place") {
  CHECK(says(refusal_of(one_input("UINT8", "[2]", "[1,256]")),
             "element 1 of input \"x\" (UINT8) is not a whole number from 0 to 255"));
  CHECK(says(refusal_of(one_input("INT8", "[1]", "[-129]")), "a whole number from -128 to 127"));
  CHECK(says(refusal_of(one_input("INT32", "[1]", "[1.5]")), "element 0"));
  CHECK(says(refusal_of(one_input("UINT64", "[1]", "[-1]")), "element 0"));
  CHECK(says(refusal_of(one_input("UINT64", "[1]", "[18446744073709551616]")), "element 0"));
  CHECK(says(refusal_of(one_input("FP32", "[1]", "[1e39]")), "element 0"));
  CHECK(says(refusal_of(one_input("FP64", "[1]", "[1e999]")), "element 0"));
  CHECK(says(refusal_of(one_input("FP32", "[1]", "[\"1\"]")), "element 0"));
  CHECK(says(refusal_of(one_input("BOOL", "[1]", "[2]")), "true or false"));
  CHECK(says(refusal_of(one_input("BYTES", "[1]", "[1]")), "a string"));
  CHECK(says(refusal_of(one_input("FP16", "[1]", "[1]")), "binary"));
  CHECK(says(refusal_of(one_input("FP32", "[2]", "[1]")), "1 elements of data: its shape [2] says 2"));
  CHECK(says(refusal_of(one_input("FP32", "[2]", "[1,2,3]")), "more data than the 2 elements"));
  CHECK(says(refusal_of(one_input("FP32", "[2,2]", "[[1,2],[3]]")), "nested unlike its shape [2,2]"));
  CHECK(says(refusal_of(one_input("FP32", "[2,2]", "[[1,2,3],[4]]")), "nested unlike its shape"));
  CHECK(says(refusal_of(one_input("FP32", "[2]", "[[1,2]]")), "nested deeper"));
  CHECK(says(refusal_of(one_input("FP32", "[1,1,2]", "[[1,2]]")), "nested less deep"));
  CHECK(says(refusal_of(one_input("FP32", "[1]", "1")), "not an array"));
}

TEST_CASE("shapes that no tensor has are refused, however large the numbers") {
  CHECK(says(refusal_of(one_input("FP32", "[-1]", "[]")), "no dimension may be negative"));
  CHECK(says(refusal_of(one_input("FP32", "[4294967296,4294967296]", "[]")), "more than"));
  CHECK(says(refusal_of(one_input("FP32", "[0,9223372036854775807]", "[]")), "more than"));
  CHECK(says(refusal_of(one_input("FP32", "[9223372036854775808]", "[]")), "64 bits"));
  CHECK(says(refusal_of(one_input("FP32", "[1.5]", "[1]")), "whole number"));
  CHECK(says(refusal_of(one_input("FP32", "[1,1,1,1,1,1,1,1,1]", "[1]")), "dimensions"));
  CHECK(says(refusal_of(one_input("FP33", "[1]", "[1]")), "no datatype \"FP33\""));
  CHECK(refusal_of(one_input(std::string(1U << 20U, 'A'), "[1]", "[1]")).size() < 1'024);
  // Announced and not sent: nothing is made of it.
  CHECK(says(refusal_of(one_input("FP64", "[1000000000000]", "[1]")), "1 elements of data"));
  CHECK(read(one_input("FP32", "[0,4]", "[]")));
}

TEST_CASE("raw tensors are views that keep the body") {
  const auto x = raw_of<float>({1, 2});
  const auto z = raw_of<std::int16_t>({-1, 5, 6});
  std::optional<HttpInference> kept;
  {
    auto result = read(R"({"inputs":[{"name":"x","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}},)"
                       R"({"name":"y","datatype":"INT8","shape":[1],"data":[3]},)"
                       R"({"name":"z","datatype":"INT16","shape":[3],"parameters":{"binary_data_size":6}}]})",
                       x + z);
    REQUIRE(result);
    kept = std::move(*result);
  }
  CHECK(values_of<float>(kept->request.inputs[0].data) == std::vector<float>{1, 2});
  CHECK(values_of<std::int8_t>(kept->request.inputs[1].data) == std::vector<std::int8_t>{3});
  CHECK(values_of<std::int16_t>(kept->request.inputs[2].data) == std::vector<std::int16_t>{-1, 5, 6});
}

TEST_CASE("raw tensors whose bytes do not fit are refused") {
  const std::string_view json =
      R"({"inputs":[{"name":"x","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}}]})";
  CHECK(says(refusal_of(json, "1234567"), "7 bytes are left"));
  CHECK(says(refusal_of(json, "123456789"), "1 bytes follow"));
  CHECK(
      says(refusal_of(R"({"inputs":[{"name":"x","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":4}}]})",
                      "1234"),
           "has 4 bytes: [2] FP32 elements are 8"));
  CHECK(
      says(refusal_of(R"({"inputs":[{"name":"x","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":-8}}]})",
                      "1"),
           "binary_data_size"));
  CHECK(says(refusal_of(R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4},)"
                        R"("data":[1]}]})",
                        "1234"),
             "both"));
  const std::string_view text =
      R"({"inputs":[{"name":"x","datatype":"BYTES","shape":[2],"parameters":{"binary_data_size":9}}]})";
  CHECK(read(text, std::string_view{"\1\0\0\0a\0\0\0\0", 9}));
  CHECK(says(refusal_of(text, std::string_view{"\1\0\0\0a\1\0\0\0", 9}), "end within element 1 of 2"));
  CHECK(says(refusal_of(text, std::string_view{"\xff\xff\xff\xff"
                                               "abcde",
                                               9}),
             "end within element 0"));
  CHECK(says(refusal_of(text, std::string_view{"\0\0\0\0\0\0\0\0a", 9}), "1 bytes behind its 2 elements"));
  const auto short_body = read_inference(body_of("{}"), 3);
  REQUIRE(!short_body);
  CHECK(says(short_body.error().message(), "is 3, but the body has 2"));
}

TEST_CASE("what is no JSON is refused, in parts that nobody asked for as well") {
  for (const auto* json : {"", "{", "[]", "1", "nul", "{\"inputs\":[}", R"({"x":tru,"inputs":[]})",
                           R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}]} {})",
                           R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1,]}]})",
                           "{\"id\":\"\xff\"}", R"({"x":[1 2],"inputs":[]})"}) {
    INFO(json);
    CHECK(!refusal_of(json).empty());
  }
  CHECK(says(refusal_of(R"({"deep":)" + std::string(100, '[') + std::string(100, ']') + "}"), "nested"));
  CHECK(says(refusal_of(R"({"id":"a","id":"b","inputs":[]})"), "\"id\" twice"));
  CHECK(says(refusal_of(R"({"inputs":[]})"), "no inputs"));
  CHECK(says(refusal_of(R"({"inputs":[{"name":"x","shape":[1],"data":[1]}]})"), "input \"x\" has no \"datatype\""));
  CHECK(says(refusal_of(R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1]}]})"), "neither"));
  std::string many = R"({"inputs":[)";
  for (int i = 0; i < 1'100; ++i)
    many += std::string{i == 0 ? "" : ","} + R"({"name":"x","datatype":"FP32","shape":[0],"data":[]})";
  CHECK(says(refusal_of(many + "]}"), "1024 inputs"));
}

TEST_CASE("an id has a bound") {
  const auto with_id = [](std::size_t bytes) {
    return R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}],"id":")" + std::string(bytes, 'i')
           + "\"}";
  };
  CHECK(refusal_of(with_id(1'024)).empty());
  CHECK(refusal_of(with_id(1'025)) == "the request's id has 1025 bytes: it may have 1024");
}

TEST_CASE("fields that count come once, in parameters too") {
  const std::string x = R"({"name":"x","shape":[1],"datatype":"FP32","data":[1]})";
  const auto with = [&](const std::string& more) { return R"({"inputs":[)" + x + "]," + more + "}"; };
  CHECK(says(refusal_of(with(R"("parameters":{"timeout":1,"timeout":2})")), "\"timeout\" twice"));
  CHECK(says(refusal_of(with(R"("parameters":{"priority":1,"priority":1})")), "\"priority\" twice"));
  CHECK(says(refusal_of(with(R"("parameters":{"binary_data_output":true,"binary_data_output":false})")),
             "\"binary_data_output\" twice"));
  CHECK(says(refusal_of(with(R"("outputs":[{"name":"y","parameters":{},"parameters":{}}])")), "\"parameters\" twice"));
  CHECK(says(refusal_of(with(R"("outputs":[{"name":"y","parameters":{"binary_data":true,"binary_data":true}}])")),
             "\"binary_data\" twice"));
  CHECK(says(refusal_of(R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","parameters":)"
                        R"({"binary_data_size":4,"binary_data_size":4}}]})",
                        "1234"),
             "\"binary_data_size\" twice"));
  CHECK_FALSE(read_index_request(body_of(R"({"ready":true,"ready":true})")));
  CHECK(refusal_of(with(R"("parameters":{"other":1,"other":2},"else":1,"else":2)")).empty());
}

TEST_CASE("names come once") {
  const std::string x = R"({"name":"x","shape":[1],"datatype":"FP32","data":[1]})";
  CHECK(says(refusal_of(R"({"inputs":[)" + x + "," + x + "]}"), "input \"x\" twice"));
  CHECK(says(refusal_of(R"({"inputs":[)" + x + R"(],"outputs":[{"name":"y"},{"name":"y"}]})"), "output \"y\" twice"));
  CHECK(says(refusal_of(R"({"inputs":[)" + x + R"(],"outputs":[{}]})"), "no \"name\""));
}

TEST_CASE("parameters are read, and those that would change the answer are refused rather than passed over") {
  const std::string x = R"("inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}])";
  const auto result = read("{" + x + R"(,"id":"7","parameters":{"priority":3,"timeout":1500,"other":{"a":[null]},)"
                           + R"("binary_data_output":true},"outputs":[{"name":"y"},)"
                           + R"({"name":"z","parameters":{"binary_data":false}}]})");
  REQUIRE(result);
  CHECK(result->request.id == "7");
  CHECK(result->request.priority == 3);
  CHECK(result->request.timeout == gpuactors::Duration{std::chrono::microseconds{1'500}});
  CHECK(result->request.outputs == std::vector<std::string>{"y", "z"});
  CHECK(result->form.is_binary("y"));
  CHECK(!result->form.is_binary("z"));
  for (const auto* parameters :
       {R"({"timeout":-1})", R"({"timeout":"1"})", R"({"priority":1.5})", R"({"sequence_id":-1})",
        R"({"sequence_id":1.5})", R"({"sequence_id":true})", R"({"sequence_start":1,"sequence_id":1})",
        R"({"sequence_start":true})", R"({"sequence_end":true,"sequence_id":0})", R"({"sequence_flags":1})",
        R"({"sequence_id":1,"sequence_id":1})", R"({"binary_data_output":1})", "[]"})
    CHECK(!refusal_of("{" + x + R"(,"parameters":)" + parameters + "}").empty());
  CHECK(says(refusal_of(R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32",)"
                        R"("parameters":{"shared_memory_region":"a"}}]})"),
             "shared memory"));
  CHECK(timeout_of(0) == std::nullopt);
  CHECK(timeout_of(std::numeric_limits<std::uint64_t>::max()) > gpuactors::Duration{std::chrono::hours{24}});
}

TEST_CASE("the sequence of a request is a number or a text, and whether it begins or ends there") {
  const auto of = [](const std::string& parameters) {
    const auto result =
        read(R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}],"parameters":{)" + parameters + "}}");
    REQUIRE(result);
    return result->request.sequence;
  };
  CHECK(of("").id.empty());
  CHECK(of(R"("sequence_id":0)").id.empty());
  CHECK(of(R"("sequence_id":"")").id.empty());
  CHECK(of(R"("sequence_id":18446744073709551615)").id == "18446744073709551615");
  const auto whole = of(R"("sequence_start":true,"sequence_id":"a b","sequence_end":true)");
  CHECK(whole.id == "a b");
  CHECK(whole.start);
  CHECK(whole.end);
  CHECK(of(R"("sequence_id":")" + std::string(128, 'x') + '"').id.size() == 128);
  CHECK(says(refusal_of(R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}],"parameters":{)"
                        R"("sequence_id":")"
                        + std::string(129, 'x') + "\"}}"),
             "has 129 bytes: it may have 128"));
}

TEST_CASE("a body without JSON is the data of a model's only input") {
  ModelDescription model;
  model.name = "m";
  model.max_batch = 8;
  model.inputs = {{"x", DataType::fp32, {-1, -1, 2}}};
  const auto result = read_raw_inference(body_of(raw_of<float>({1, 2, 3, 4})), model);
  REQUIRE(result);
  CHECK(result->request.inputs[0].shape == std::vector<std::int64_t>{1, 2, 2});
  CHECK(result->form.is_binary("anything"));
  CHECK(!read_raw_inference(body_of("123456789"), model));
  model.inputs = {{"x", DataType::bytes, {-1, 1}}};
  const auto text = read_raw_inference(body_of("abc"), model);
  REQUIRE(text);
  CHECK(values_of<char>(text->request.inputs[0].data) == std::vector<char>{3, 0, 0, 0, 'a', 'b', 'c'});
  model.inputs = {{"x", DataType::fp32, {-1, -1, -1}}};
  CHECK(!read_raw_inference(body_of("1234"), model));
  model.inputs.push_back(model.inputs[0]);
  CHECK(!read_raw_inference(body_of("1234"), model));
}

TEST_CASE("parameters of a load are text, and a body may be missing") {
  const auto result = read_repository_parameters(body_of(R"({"parameters":{"a":"b","n":-3,"t":true,"f":0.5}})"));
  REQUIRE(result);
  CHECK(*result == std::map<std::string, std::string>{{"a", "b"}, {"f", "0.5"}, {"n", "-3"}, {"t", "true"}});
  CHECK(read_repository_parameters(body_of("")));
  CHECK(read_repository_parameters(body_of(" \n")));
  CHECK(!read_repository_parameters(body_of("{")));
  CHECK(!read_repository_parameters(body_of(R"({"parameters":{"a":[]}})")));
  CHECK(read_index_request(body_of(R"({"ready":true})")).value_or(false));
  CHECK(!read_index_request(body_of("")).value_or(true));
  CHECK(!read_index_request(body_of(R"({"ready":1})")));
}

TEST_CASE("paths lead to endpoints, with names decoded and queries left out") {
  const auto infer = find_route("/v2/models/a%20b%2Fc/versions/3/infer?x=/y");
  REQUIRE(infer);
  CHECK(infer->endpoint == EndpointKind::infer);
  CHECK(infer->model == "a b/c");
  CHECK(infer->version == "3");
  CHECK(find_route("/v2")->endpoint == EndpointKind::server);
  CHECK(find_route("/v2/")->endpoint == EndpointKind::server);
  CHECK(find_route("http://host:1/v2/models/m")->endpoint == EndpointKind::model);
  CHECK(find_route("/v2/models/stats")->endpoint == EndpointKind::all_statistics);
  CHECK(find_route("/v2/models/m/stats")->endpoint == EndpointKind::model_statistics);
  CHECK(find_route("/v2/repository/models/m/unload")->endpoint == EndpointKind::unload);
  for (const auto* path : {"", "*", "/", "/v1", "/v2//live", "/v2/health", "/v2/models", "/v2/models/m/other",
                           "/v2/models/m/versions", "/v2/models/%zz/infer", "/v2/models/%00/infer", "/v2/models/a%2",
                           "/v2/models/m/infer/x/y/z/1/2/3", "http://host"}) {
    INFO(path);
    CHECK(!find_route(path));
  }
}

TEST_CASE("tokens come from a file that others cannot read, and only whole tokens are accepted") {
  const gpuactors::test::TemporaryFolder folder;
  const auto file = folder / "tokens";
  const auto write = [&](const std::string& text, mode_t mode) {
    std::ofstream{file} << text;
    REQUIRE(::chmod(file.c_str(), mode) == 0);
    return Tokens::read(file);
  };
  const auto tokens = write("# mine\n0123456789abcdef\n\n  fedcba9876543210  \n", 0600);
  REQUIRE(tokens);
  CHECK(tokens->accept("Bearer 0123456789abcdef"));
  CHECK(tokens->accept("bearer fedcba9876543210"));
  for (const auto* header : {"", "Bearer", "Bearer ", "Basic 0123456789abcdef", "Bearer 0123456789abcde",
                             "Bearer 0123456789abcdef0", "0123456789abcdef", "Bearer # mine"})
    CHECK(!tokens->accept(header));
  CHECK(Tokens{}.accept(""));
  CHECK(!write("0123456789abcdef\n", 0644));
  CHECK(!write("short\n", 0600));
  CHECK(!write("# none\n", 0600));
  CHECK(!Tokens::read(folder / "missing"));
  CHECK(!check_exposure({"0.0.0.0", 1}, false, false));
  CHECK(check_exposure({"0.0.0.0", 1}, true, false));
  CHECK(check_exposure({"0.0.0.0", 1}, false, true));
  CHECK(check_exposure({"127.0.0.1", 1}, false, false));
}
