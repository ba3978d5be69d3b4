// The log of requests: its lines, the ids of requests, and the file. And what spans say of them.
#include <gpuactors/base/utf8.hpp>

#include <apps/serve/protocol/request_line.hpp>
#include <support/catch.hpp>
#include <support/results.hpp>
#include <support/temporary_folder.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

using namespace serve;
using namespace std::chrono_literals;
using gpuactors::test::must;
using gpuactors::test::TemporaryFolder;

namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream{file}.rdbuf();
  return text.str();
}

LoggedRequest request(const std::string& id) {
  LoggedRequest result;
  result.arrived = std::chrono::system_clock::time_point{std::chrono::milliseconds{1'700'000'000'042}};
  result.front = "http";
  result.client = "127.0.0.1:4000";
  result.id = id;
  result.what = "POST /v2/models/digits/infer";
  result.model = "digits";
  result.version = "2";
  result.status = 200;
  result.in_bytes = 10;
  result.out_bytes = 20;
  result.took = 1500us;
  return result;
}

/// The attributes of its span, as text.
std::map<std::string, std::string> attributes(const LoggedRequest& request) {
  std::map<std::string, std::string> result;
  for (const auto& [key, value] : span_attributes_of(request)) {
    const auto text = std::visit(
        [](const auto& x) {
          std::ostringstream out;
          out << x;
          return out.str();
        },
        value);
    CHECK(result.emplace(key, text).second);
  }
  return result;
}

const auto quiet = [](const std::string&) {};

} // namespace

TEST_CASE("a line says who asked what, what became of it, and where the time went") {
  auto logged = request("a-1");
  logged.times = ReplyTimes{550us, 250us, 8};
  CHECK(log_line_of(logged)
        == R"({"time":"2023-11-14T22:13:20.042Z","front":"http","client":"127.0.0.1:4000","id":"a-1",)"
           R"("request":"POST /v2/models/digits/infer","model":"digits","version":"2","status":200,"in_bytes":10,)"
           R"("out_bytes":20,"seconds":0.0015,"queue_seconds":0.00055,"infer_seconds":0.00025,"batch_rows":8})");
  logged.times.reset();
  logged.first = 1ms;
  logged.model.clear();
  logged.version.clear();
  logged.what = "GET /\"x\n";
  const auto line = log_line_of(logged);
  CHECK(line.find(R"("request":"GET /\"x\n","status")") != std::string::npos);
  CHECK(line.find(R"("first_seconds":0.001)") != std::string::npos);
}

TEST_CASE("a line says which trace its request belongs to, recorded or not") {
  auto logged = request("a");
  CHECK(log_line_of(logged).find("trace") == std::string::npos);
  for (const auto sampled : {true, false}) {
    logged.trace = {0x1a, 0x2b, 3, sampled};
    CHECK(log_line_of(logged).find(R"("id":"a","trace":"000000000000001a000000000000002b","request")")
          != std::string::npos);
  }
}

TEST_CASE("a span says what the log says, by OpenTelemetry's names where it has some") {
  auto logged = request("a-1");
  logged.times = ReplyTimes{550us, 250us, 8};
  CHECK(attributes(logged)
        == std::map<std::string, std::string>{{"client.address", "127.0.0.1"},
                                              {"client.port", "4000"},
                                              {"gpuactors.batch_rows", "8"},
                                              {"gpuactors.infer_seconds", "0.00025"},
                                              {"gpuactors.model", "digits"},
                                              {"gpuactors.queue_seconds", "0.00055"},
                                              {"gpuactors.request_id", "a-1"},
                                              {"gpuactors.version", "2"},
                                              {"http.response.status_code", "200"}});
  LoggedRequest refused;
  refused.front = "grpc";
  refused.client = "[::1]:50001";
  refused.status = 5;
  refused.first = 1ms;
  CHECK(attributes(refused)
        == std::map<std::string, std::string>{{"client.address", "::1"},
                                              {"client.port", "50001"},
                                              {"gpuactors.first_seconds", "0.001"},
                                              {"rpc.grpc.status_code", "5"}});
  refused.client = "unix:";
  CHECK(attributes(refused).at("client.address") == "unix:");
}

TEST_CASE("what clients do wrong is no error of the server's span") {
  LoggedRequest request;
  const auto error = [&](std::string_view front, int status) {
    request.front = front;
    request.status = status;
    return server_error_of(request).value_or("none");
  };
  for (const auto status : {200, 400, 404, 429, 499})
    CHECK(error("http", status) == "none");
  CHECK(error("http", 500) == "500");
  CHECK(error("http", 503) == "503");
  for (const auto code : {0, 1, 3, 5, 7, 8, 16})
    CHECK(error("grpc", code) == "none");
  CHECK(error("grpc", 2) == "UNKNOWN");
  CHECK(error("grpc", 4) == "DEADLINE_EXCEEDED");
  CHECK(error("grpc", 12) == "UNIMPLEMENTED");
  CHECK(error("grpc", 13) == "INTERNAL");
  CHECK(error("grpc", 14) == "UNAVAILABLE");
  CHECK(error("grpc", 15) == "DATA_LOSS");
  CHECK(error("grpc", 17) == "none");
}

TEST_CASE("what strangers name is cut and made text: a line is JSON whatever they send") {
  auto logged = request("a");
  logged.what = "GET /\xff" + std::string(5'000, 'x');
  logged.model = "\x80";
  const auto line = log_line_of(logged);
  CHECK(gpuactors::is_utf8(line));
  CHECK(line.size() < 1'000);
  CHECK(line.find("xxx...\"") != std::string::npos);
}

TEST_CASE("a request keeps the id that its client gives it if it is a plain word") {
  CHECK(request_id_of("00-4bf92f3577b34da6a3ce929d0e0e4736-01") == "00-4bf92f3577b34da6a3ce929d0e0e4736-01");
  for (const auto& bad :
       {std::string{}, std::string{"two words"}, std::string{"a\r\nX-Evil: 1"}, std::string(129, 'a')}) {
    const auto id = request_id_of(bad);
    CHECK(id.size() == 16);
    CHECK(id != request_id_of(bad));
  }
}

TEST_CASE("the log of a server that starts again goes on behind what there was, and writes all before it ends") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "requests.log";
  for (int start = 0; start < 2; ++start) {
    const auto log = must(RequestLog::open(file, quiet));
    for (int i = 0; i < 100; ++i)
      log->add(request(std::to_string(100 * start + i)));
    CHECK(log->lost() == 0);
  }
  std::istringstream lines{text_of(file)};
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    CHECK(line.find("\"id\":\"" + std::to_string(count) + "\"") != std::string::npos);
  CHECK(count == 200);
}

TEST_CASE("a log that cannot be written is refused with the reason, and one that cannot be any more says so once") {
  const auto refused = RequestLog::open("/nowhere/requests.log", quiet);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == gpuactors::Errc::invalid_argument);
  CHECK(refused.error().message()
        == "the request log /nowhere/requests.log cannot be written: No such file or directory");
  std::vector<std::string> notices;
  {
    // A device that is always full.
    const auto log = must(RequestLog::open("/dev/full", [&](const std::string& text) { notices.push_back(text); }));
    for (int i = 0; i < 10; ++i)
      log->add(request("x"));
  }
  CHECK(notices == std::vector<std::string>{"lines of the request log /dev/full are lost: No space left on device"});
}

TEST_CASE("a line that nobody ends says that the request was given up") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "requests.log";
  {
    const std::shared_ptr<RequestLog> log = must(RequestLog::open(file, quiet));
    RequestLine given_up{log, 1};
    RequestLine answered{log, 1};
    answered.end(0);
    RequestLine nowhere{nullptr, 1};
  }
  const auto text = text_of(file);
  CHECK(text.find("\"status\":0") < text.find("\"status\":1"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
}
