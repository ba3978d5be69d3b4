// The HTTP server of the command line: what it answers, what it refuses, and that nobody holds it up.
#include <apps/gpuactors/http_page.hpp>
#include <support/asker.hpp>
#include <support/catch.hpp>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using namespace gpuactors;
using namespace std::chrono_literals;
using cli::HttpPage;
using cli::PageAnswer;
using cli::PageLimits;
using cli::PageReply;
using cli::PageRequest;
using gpuactors::test::Asker;

namespace {

/// A server with a few pages: "/late" is answered when `answer_late` says so, "/never" never.
class PageServer {
public:
  explicit PageServer(PageLimits limits = {}) : page_(must_listen(limits)) {
    thread_ = std::thread{[this] { served_ = page_.serve(handler(), stop_.get_token()).has_value(); }};
  }

  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  ~PageServer() {
    end();
  }

  bool end() {
    stop_.request_stop();
    if (thread_.joinable())
      thread_.join();
    return served_;
  }

  [[nodiscard]] std::uint16_t port() const {
    return page_.endpoint().port;
  }

  std::string get(const std::string& request) const {
    const Asker asker{port()};
    asker.say(request);
    return asker.hear();
  }

  void answer_late(const std::string& text) {
    std::unique_lock lock{mutex_};
    asked_.wait(lock, [this] { return !late_.empty(); });
    late_.back()({200, "text/plain", text});
    late_.back()({200, "text/plain", "a second answer"});
  }

private:
  static HttpPage must_listen(PageLimits limits) {
    auto page = HttpPage::listen({"127.0.0.1", 0}, limits);
    REQUIRE(page);
    return std::move(*page);
  }

  cli::PageHandler handler() {
    return [this](const PageRequest& request, PageReply reply) {
      const std::lock_guard lock{mutex_};
      if (request.path == "/late" || request.path == "/never") {
        late_.push_back(std::move(reply));
        asked_.notify_one();
      } else if (request.path == "/large") {
        reply({200, "text/plain", std::string(8'000'000, 'x')});
      } else {
        reply({request.path == "/" ? 200 : 404, "text/plain", "page " + request.path});
      }
    };
  }

  HttpPage page_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::vector<PageReply> late_;
  std::stop_source stop_;
  bool served_ = false;
  std::thread thread_;
};

std::string get_request(const std::string& target) {
  return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
}

std::string status_of(const std::string& answer) {
  return answer.substr(0, answer.find("\r\n"));
}

std::string body_of(const std::string& answer) {
  const auto end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

} // namespace

TEST_CASE("only who asks for a loopback address gets what is served there") {
  PageServer server;
  for (const auto* host : {"localhost", "localhost:7712", "127.0.0.1", "127.1.2.3:80", "[::1]", "[::1]:7712"}) {
    INFO(host);
    CHECK(status_of(server.get(std::string{"GET / HTTP/1.1\r\nHost: "} + host + "\r\n\r\n")) == "HTTP/1.1 200 OK");
  }
  for (const auto* host : {"example.org", "127.example.org", "10.0.0.1", "[::2]", "[", ""}) {
    INFO(host);
    CHECK(status_of(server.get(std::string{"GET / HTTP/1.1\r\nHost: "} + host + "\r\n\r\n"))
          == "HTTP/1.1 403 Forbidden");
  }
  CHECK(status_of(server.get("GET / HTTP/1.0\r\n\r\n")) == "HTTP/1.1 200 OK");
}

TEST_CASE("a page is answered with its length, and the connection closed") {
  PageServer server;
  const auto answer = server.get("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(status_of(answer) == "HTTP/1.1 200 OK");
  CHECK(answer.find("\r\nContent-Length: 6\r\n") != std::string::npos);
  CHECK(answer.find("\r\nContent-Type: text/plain\r\n") != std::string::npos);
  CHECK(answer.find("\r\nConnection: close\r\n") != std::string::npos);
  CHECK(body_of(answer) == "page /");
  CHECK(body_of(server.get(get_request("/metrics?a=b"))) == "page /metrics");
  CHECK(status_of(server.get(get_request("/other"))) == "HTTP/1.1 404 Not Found");
  CHECK(body_of(server.get(get_request("/large"))).size() == 8'000'000);
  CHECK(server.end());
}

TEST_CASE("many read at the same time") {
  PageServer server;
  std::vector<std::string> answers(32);
  std::vector<std::thread> readers;
  for (auto& answer : answers)
    readers.emplace_back([&server, &answer] { answer = server.get(get_request("/many")); });
  for (auto& reader : readers)
    reader.join();
  for (const auto& answer : answers)
    CHECK(body_of(answer) == "page /many");
}

TEST_CASE("HEAD has no body, and a request may come in pieces") {
  PageServer server;
  const auto head = server.get("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(status_of(head) == "HTTP/1.1 200 OK");
  CHECK(head.find("\r\nContent-Length: 6\r\n") != std::string::npos);
  CHECK(body_of(head).empty());
  const Asker asker{server.port()};
  for (const char c : get_request("/piece"))
    asker.say({c});
  CHECK(body_of(asker.hear()) == "page /piece");
}

TEST_CASE("what is no request, too large or another method is refused") {
  PageServer server;
  CHECK(status_of(server.get("GET /\r\n\r\n")) != "HTTP/1.1 200 OK");
  const auto post = server.get("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc");
  CHECK(status_of(post) == "HTTP/1.1 405 Method Not Allowed");
  CHECK(post.find("\r\nAllow: GET, HEAD\r\n") != std::string::npos);
  // The answer need not arrive: the connection is closed before all of the request is read.
  const std::string much(1'000'000, 'a');
  CHECK(server.get("GET / HTTP/1.1\r\nHost: localhost\r\nA: " + much + "\r\n\r\n").find(" 200 ") == std::string::npos);
  CHECK(server.get("GET /" + much + " HTTP/1.1\r\nHost: localhost\r\n\r\n").find(" 200 ") == std::string::npos);
  const std::string fits(8'000, 'a');
  CHECK(status_of(server.get("GET / HTTP/1.1\r\nHost: localhost\r\nA: " + fits + "\r\n\r\n")) == "HTTP/1.1 200 OK");
}

TEST_CASE("an answer may come later, from another thread; only the first one counts") {
  PageServer server;
  const Asker asker{server.port()};
  asker.say(get_request("/late"));
  server.answer_late("late");
  CHECK(body_of(asker.hear()) == "late");
  // One that breaks off meanwhile is nobody's loss.
  {
    const Asker gone{server.port()};
    gone.say(get_request("/late"));
  }
  CHECK(status_of(server.get(get_request("/"))) == "HTTP/1.1 200 OK");
}

TEST_CASE("who is slow holds nobody up, and a handler without an answer is a 503") {
  PageLimits limits;
  limits.patience = 2s;
  PageServer server{limits};
  const Asker silent{server.port()};
  const Asker slow{server.port()};
  slow.say("GET / HTTP/1.1\r\nA: b");
  CHECK(status_of(server.get(get_request("/"))) == "HTTP/1.1 200 OK");
  CHECK(status_of(server.get(get_request("/never"))) == "HTTP/1.1 503 Service Unavailable");
  CHECK(silent.hear().empty());
  CHECK(slow.hear().empty());
  // Each byte of this one comes in time, but not all of them.
  const Asker trickling{server.port()};
  trickling.say("GET / HTTP/1.1\r\nA: ");
  int drops = 0;
  for (; !trickling.hears_within(20ms) && drops < 1000; ++drops)
    trickling.say("b");
  CHECK(drops < 1000);
}

TEST_CASE("more connections than it takes wait for one of the others to go") {
  PageLimits limits;
  limits.connections = 1;
  limits.patience = 2s;
  PageServer server{limits};
  const Asker silent{server.port()};
  CHECK(status_of(server.get(get_request("/"))) == "HTTP/1.1 200 OK");
  CHECK(silent.hear().empty());
  const Asker deaf{server.port()};
  deaf.say(get_request("/large")); // and does not read the answer
  CHECK(status_of(server.get(get_request("/"))) == "HTTP/1.1 200 OK");
}

TEST_CASE("it ends when it is told to, whoever is connected") {
  PageServer server;
  const Asker idle{server.port()};
  const Asker waiting{server.port()};
  waiting.say(get_request("/never"));
  CHECK(server.end());
}

TEST_CASE("a port that is taken and a host that there is not are refused in words") {
  PageServer server;
  const auto taken = HttpPage::listen({"127.0.0.1", server.port()});
  REQUIRE(!taken);
  CHECK(taken.error().code() == Errc::unavailable);
  CHECK(taken.error().message().find("cannot listen at 127.0.0.1:") != std::string::npos);
  CHECK(taken.error().message().find("; --listen names another port, 0 any that is free") != std::string::npos);
  const auto nowhere = HttpPage::listen({"256.0.0.1", 0});
  REQUIRE(!nowhere);
  CHECK(nowhere.error().code() == Errc::invalid_argument);
}
