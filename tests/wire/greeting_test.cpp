// Processes of different releases: they understand each other, or say so at once, on both sides.
#include "certificate_fixture.hpp"
#include "linked_process.hpp"
#include "raw_peer.hpp"

#include <gpuactors/base/revisions.hpp>
#include <gpuactors/base/version.hpp>
#include <gpuactors/wire/detail/link_gate.hpp>

#include <support/catch.hpp>
#include <support/eventually.hpp>
#include <support/results.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using detail::Greeting;

namespace {

/// What a process has reported.
class Notices {
public:
  [[nodiscard]] LinkOptions options() {
    LinkOptions options;
    options.notice = [this](std::string_view line) {
      const std::lock_guard lock{mutex_};
      lines_.emplace_back(line);
    };
    return options;
  }

  bool say(const std::string& words) {
    return eventually([&] {
      const std::lock_guard lock{mutex_};
      return std::any_of(lines_.begin(), lines_.end(),
                         [&](const auto& line) { return line.find(words) != std::string::npos; });
    });
  }

  bool are_none() {
    const std::lock_guard lock{mutex_};
    return lines_.empty();
  }

private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// That of a release with these revisions, on the same CAF.
Greeting speaks(std::uint32_t oldest, std::uint32_t newest, std::string release) {
  return {oldest, newest, std::move(release), detail::own_greeting().caf};
}

/// A header of CAF's protocol, of this kind.
std::string caf_header(char kind) {
  std::string bytes(32, '\0');
  bytes.front() = kind;
  return bytes;
}

std::shared_ptr<detail::LinkGate> gate_of(const Greeting& greeting) {
  return must(detail::LinkGate::make(
      std::nullopt, [](std::string_view) {}, greeting));
}

} // namespace

// -- what is said and agreed ----------------------------------------------------------------------

TEST_CASE("a greeting is a line of text that all releases read", "[wire][releases]") {
  CHECK(detail::to_line({1, 2, "0.2.0", 3}) == "gpuactors revisions 1 2 release 0.2.0 caf 3\n");
  CHECK(detail::read_greeting("gpuactors revisions 1 2 release 0.2.0 caf 3") == Greeting{1, 2, "0.2.0", 3});
  // Words of later releases are none of this one's business.
  CHECK(detail::read_greeting("gpuactors revisions 7 9 release 2.0-rc1+git caf 4 more words")
        == Greeting{7, 9, "2.0-rc1+git", 4});
  const auto own = detail::own_greeting();
  auto line = detail::to_line(own);
  line.pop_back();
  CHECK(detail::read_greeting(line) == own);
  // A header of CAF's protocol, for releases that know no greeting, and no part of one.
  CHECK(line.size() >= 32);
  CHECK(own.newest == wire_revision);
  CHECK(own.oldest == oldest_wire_revision);
  CHECK(own.release == release);
}

TEST_CASE("what is no greeting is none", "[wire][releases]") {
  for (const auto* line :
       {"", "gpuactors", "gpuactors revisions ", "gpuactors revisions 1", "gpuactors revisions 1 2",
        "gpuactors revisions 1 2 release", "gpuactors revisions 1 2 release 0.2.0",
        "gpuactors revisions 1 2 release 0.2.0 caf", "gpuactors revisions 2 1 release 0.2.0 caf 3",
        "gpuactors revisions -1 2 release 0.2.0 caf 3", "gpuactors revisions 1 2x release 0.2.0 caf 3",
        "gpuactors revisions 1 4294967296 release 0.2.0 caf 3", "gpuactors revisions 1 2 release  caf 3",
        "gpuactors revisions 1 2 release 0.2\x01 caf 3", "gpuactors revisions 1 2 since 0.2.0 caf 3",
        "GPUACTORS revisions 1 2 release 0.2.0 caf 3", "HTTP/1.1 400 Bad Request"}) {
    INFO(line);
    CHECK_FALSE(detail::read_greeting(line));
  }
  CHECK_FALSE(
      detail::read_greeting("gpuactors revisions 1 2 release 0.2.0 caf 3 " + std::string(detail::greeting_most, 'x')));
  CHECK(detail::may_be_greeting(""));
  CHECK(detail::may_be_greeting("gpua"));
  CHECK(detail::may_be_greeting("gpuactors revisions 1"));
  CHECK_FALSE(detail::may_be_greeting("gpux"));
  CHECK_FALSE(detail::may_be_greeting("gpuactors revisions " + std::string(detail::greeting_most, '1')));
}

TEST_CASE("two releases use the highest revision that both speak", "[wire][releases]") {
  struct Case {
    Greeting own, other;
    std::uint32_t agreed;
  };
  for (const auto& [own, other, agreed] : std::vector<Case>{{speaks(1, 1, "a"), speaks(1, 1, "a"), 1},
                                                            {speaks(1, 1, "a"), speaks(1, 3, "b"), 1},
                                                            {speaks(2, 4, "a"), speaks(4, 7, "b"), 4},
                                                            {speaks(2, 4, "a"), speaks(1, 3, "b"), 3}}) {
    CHECK(must(detail::agree(own, other, "it")) == agreed);
    CHECK(must(detail::agree(other, own, "it")) == agreed);
  }
}

TEST_CASE("two releases without a common revision name both, and which of them is to be upgraded", "[wire][releases]") {
  const auto early = speaks(1, 2, "0.2.0");
  const auto late = speaks(3, 3, "0.9.0");
  const auto at_early = detail::agree(early, late, "gpu1:7711");
  const auto at_late = detail::agree(late, early, "it");
  REQUIRE_FALSE(at_early);
  REQUIRE_FALSE(at_late);
  CHECK(at_early.error().code() == Errc::unsupported);
  CHECK(
      at_early.error().message()
      == "gpu1:7711 runs release 0.9.0 with revision 3, and this process release 0.2.0 with revisions 1 to 2: they do "
         "not understand each other; upgrade this process (the order is: a broker that stands by, the broker, nodes, "
         "clients; see \"Upgrade a cluster\" in the guide)");
  CHECK_THAT(at_late.error().message(), Contains("it runs release 0.2.0 with revisions 1 to 2") && Contains("0.9.0")
                                            && Contains("upgrade the other one"));
  auto other_caf = early;
  other_caf.caf = 99;
  const auto refused = detail::agree(early, other_caf, "it");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::unsupported);
  CHECK_THAT(refused.error().message(), Contains("version of CAF"));
}

// -- at a connection ------------------------------------------------------------------------------

TEST_CASE("a process is refused by one of a later release that does not speak its revision, and knows why",
          "[wire][releases]") {
  RawPort later{"gpuactors revisions 1001 1003 release 77.0 caf " + std::to_string(detail::own_greeting().caf)
                + " and more\n"};
  LinkedProcess process;
  const auto refused = process.connect_async(later.address()).get();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::unsupported);
  CHECK(refused.error().remedy() == Remedy::give_up);
  CHECK_THAT(refused.error().message(), Contains("127.0.0.1:") && Contains("release 77.0 with revisions 1001 to 1003")
                                            && Contains(release) && Contains("upgrade this process"));
  // The other side hears whom it refuses.
  CHECK(later.answer() == detail::to_line(detail::own_greeting()));
}

TEST_CASE("both sides say why a connection of another release is refused", "[wire][releases]") {
  Notices notices;
  LinkedProcess process{notices.options()};
  const auto later = gate_of(speaks(1001, 1003, "77.0"));
  const auto refused = later->dial(process.address(), soon());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::unsupported);
  CHECK_THAT(refused.error().message(), Contains("upgrade the other one"));
  CHECK(notices.say("refused a connection from 127.0.0.1: it runs release 77.0 with revisions 1001 to 1003"));
  CHECK(notices.say("upgrade this process"));
}

TEST_CASE("processes whose revisions overlap are connected", "[wire][releases]") {
  LinkedProcess process;
  const auto later = gate_of(speaks(oldest_wire_revision, wire_revision + 2, "77.0"));
  auto session = later->dial(process.address(), soon());
  REQUIRE(session);
  // CAF's handshake follows, and nothing that was meant for it is lost.
  RawPeer peer{std::move(session->socket)};
  CHECK(peer.bytes(4) == std::string(4, '\0'));
}

TEST_CASE("a release from before revisions is refused in words, whichever side it is", "[wire][releases]") {
  SECTION("it listens") {
    RawPort early{caf_header(0)};
    LinkedProcess process;
    const auto refused = process.connect_async(early.address()).get();
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == Errc::unsupported);
    CHECK_THAT(refused.error().message(), Contains("from before revisions") && Contains("upgrade the other one"));
  }
  SECTION("it connects") {
    Notices notices;
    LinkedProcess process{notices.options()};
    RawPeer early{process.address()};
    early.say(caf_header(1));
    CHECK(early.line() == detail::to_line(detail::own_greeting()));
    CHECK(early.is_sent_away());
    CHECK(notices.say("it runs a release from before revisions"));
  }
}

TEST_CASE("who has a certificate and says nothing may be of a release from before revisions", "[wire][releases]") {
  CertificateFixture fixture;
  fixture.now = std::chrono::system_clock::now();
  must(fixture.certs().init(10));
  const auto files = must(fixture.certs().check());
  Notices notices;
  auto options = notices.options();
  options.certificates = files;
  LinkedProcess process{options};
  {
    RawPeer early{process.address(), must(transport::TlsContext::load(files))};
    CHECK(early.line() == detail::to_line(detail::own_greeting()));
  }
  CHECK(notices.say("it has ended without saying what it speaks"));
  RawPeer noise{process.address(), must(transport::TlsContext::load(files))};
  noise.say("GET / HTTP/1.1\r\n");
  CHECK(noise.is_sent_away());
  CHECK(notices.say("it speaks no protocol of gpuactors"));
}

TEST_CASE("in plaintext, what is no greeting is sent away without a word, also one without an end",
          "[wire][releases]") {
  Notices notices;
  LinkedProcess process{notices.options()};
  for (const auto& bytes : {std::string{"GET / HTTP/1.1\r\n\r\n"}, std::string(70'000, 'g'),
                            "gpuactors revisions 1 1 " + std::string(70'000, '1'),
                            std::string{"gpuactors revisions 1 1\n"}, caf_header(2)}) {
    RawPeer stranger{process.address()};
    stranger.say(bytes);
    CHECK(stranger.is_sent_away());
  }
  CHECK(notices.are_none());
  RawPort web{"HTTP/1.1 400 Bad Request\r\n"};
  const auto refused = process.connect_async(web.address()).get();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::invalid_argument);
  CHECK_THAT(refused.error().message(), Contains("is no port of gpuactors"));
}

TEST_CASE("one that ends a connection without a word may have been about to die, and is asked once more",
          "[wire][releases]") {
  auto listener = must(transport::listen_tcp({"127.0.0.1", 0}));
  std::vector<std::string> heard;
  std::thread silent{[&] {
    while (heard.size() < 2
           && transport::wait_for(listener.socket.get(), POLLIN, must(transport::Signal::make()), soon()))
      heard.push_back(RawPeer{must(transport::accept_next(listener.socket.get()))}.line());
  }};
  LinkedProcess process;
  const auto refused = process.connect_async({"127.0.0.1", listener.port}).get();
  silent.join();
  CHECK(heard == std::vector(2, detail::to_line(detail::own_greeting())));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::invalid_argument);
  CHECK_THAT(refused.error().message(), Contains("it may speak TLS"));
}

TEST_CASE("a process ends although one that it has begun to speak with says nothing after its greeting",
          "[wire][releases]") {
  RawPort silent{detail::to_line(detail::own_greeting())};
  LinkedProcess other;
  auto process = std::make_unique<LinkedProcess>();
  const auto never_there = process->connect_async(silent.address());
  CHECK(silent.answer() == detail::to_line(detail::own_greeting()));
  // Behind it, so that CAF has the first one by now.
  CHECK(process->ask(process->connect(other)));
  process.reset();
}

// -- what travels over it -------------------------------------------------------------------------

TEST_CASE("fields and values that a release does not know are kept, and hurt nothing", "[wire][releases]") {
  System system;
  v1::StateEntry later;
  later.set_section(4'000);
  later.set_name("kept");
  v1::SubmitGroup group;
  group.set_name("g");
  group.set_strategy(static_cast<v1::SubmitGroup::Strategy>(99));
  // A field of another message is an unknown one to this.
  group.GetReflection()->MutableUnknownFields(&group)->AddVarint(900, 5);
  caf_version::Bytes bytes;
  REQUIRE(caf_version::encode(system.get(), group, bytes));
  v1::SubmitGroup read;
  REQUIRE(caf_version::decode(system.get(), bytes, read));
  CHECK(read.name() == "g");
  CHECK(static_cast<int>(read.strategy()) == 99);
  CHECK(read.GetReflection()->GetUnknownFields(read).field_count() == 1);
}

// CAF 0.17 knows types by system, so that one process can play both releases.
#if GPUACTORS_CAF_017

namespace {

/// A message of a later release.
struct LaterMessage {
  std::string text;

  template <class Inspector>
  friend typename Inspector::result_type inspect(Inspector& f, LaterMessage& x) {
    return f(x.text);
  }
};

/// The error that a request is answered with, or none.
class AnswerOf : public PendingReply {
public:
  void on_reply(MessageContent&) override {
    error_.set_value(Errc::none);
  }

  void on_error(Error error) override {
    error_.set_value(error.code());
  }

  Errc wait() {
    return error_.get_future().get();
  }

private:
  std::promise<Errc> error_;
};

} // namespace

TEST_CASE("a request of a type that a release does not know is answered with an error, and the connection goes on",
          "[wire][releases]") {
  LinkedProcess process;
  LinkedProcess later{{}, [](caf::actor_system_config& config) {
                        config.add_message_type<LaterMessage>("gpuactors::test::LaterMessage");
                      }};
  const auto handle = later.connect(process);
  REQUIRE(later.ask(handle));
  const auto answer = std::make_shared<AnswerOf>();
  later.port().ask(answer, handle, soon(), LaterMessage{"?"});
  CHECK(answer->wait() == Errc::invalid_argument);
  // One that wants no answer is dropped.
  later.port().tell(handle, LaterMessage{"!"});
  CHECK(later.ask(handle));
  CHECK(process.ask(process.connect(later)));
}

#endif
