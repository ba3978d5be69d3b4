// Functions that run on an actor's thread between its messages.
#include "fixtures.hpp"

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;
using google::protobuf::Empty;

namespace {

constexpr ActorKind poster{"poster"};
constexpr Method<Text> note{"note"};
constexpr Method<Text> post_note{"post_note"};
constexpr Method<Empty, Text> notes{"notes"};
constexpr Method<Text> post_throw{"post_throw"};
constexpr Method<> tick{"tick"};
constexpr Method<> leave_later{"leave_later"};
constexpr Method<> post_endless{"post_endless"};
constexpr Method<> ask_other{"ask_other"};
constexpr Method<> hold{"hold"};
constexpr Method<Text> post_beside{"post_beside"};
constexpr Method<Text, Text> go_on{"go_on"};

/// What the last actor has left behind.
struct Left {
  std::atomic<int> dropped{0};
  std::atomic<int> dropped_at_end{-1};
  std::atomic<int> stops_seen{0};
  std::atomic<int> strangers{0};
  std::shared_ptr<ActorThread> thread;
};

Left& left() {
  static Left instance;
  return instance;
}

/// Counts when the last function that holds it is destroyed.
struct Token {
  Token() = default;
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;
  ~Token() {
    ++left().dropped;
  }
};

class Poster : public Actor {
public:
  explicit Poster(Init init) : Actor(std::move(init)), thread_(std::this_thread::get_id()) {
    left().thread = std::make_shared<ActorThread>(own_thread());
    post([this] { write("constructed"); });
  }

  Poster(const Poster&) = delete;
  Poster& operator=(const Poster&) = delete;

  ~Poster() override {
    left().dropped_at_end = left().dropped.load();
    // Nobody runs it any more.
    post([token = std::make_shared<Token>()] {});
  }

  void note(const Text& what) {
    write(what.text());
  }

  void post_note(const Text& what) {
    post([this, what] { write(what.text()); });
    write("before " + what.text());
  }

  Text notes(const Empty&) {
    return text(notes_);
  }

  /// A function that cannot be copied.
  void post_throw(const Text& what) {
    post([what = std::make_unique<Text>(what)] { throw std::runtime_error(what->text()); });
  }

  /// Ticks three times.
  void tick(const Empty&) {
    if (++ticks_ < 3)
      post_after(1ms, [this] { tick({}); });
    else
      write("ticked");
  }

  void leave_later(const Empty&) {
    post([this] { end("it was posted"); });
  }

  void post_endless(const Empty&) {
    post_after(24h, [token = std::make_shared<Token>()] {});
  }

  /// Goes on here when another actor has answered there.
  Result<void> ask_other(const Empty&) {
    GPUACTORS_LET(other, Cluster::from(*this).find("other"));
    other.call(::notes).then([thread = own_thread(), this](Result<Text> answer) {
      static_cast<void>(thread.post([this, answer = std::move(answer)] { write("other: " + must(answer).text()); }));
    });
    return {};
  }

  /// Goes on here with what another actor has answered: as the text says, with nothing, an error, an exception, or more
  /// work there.
  Future<Text> go_on(const Text& how) {
    const auto other = must(Cluster::from(*this).find("other"));
    if (how.text() == "nobody")
      return after(other.call<Text>("nothing"), [this](const Text&) {
        write("it went on");
        return Text{};
      });
    if (how.text() == "more") {
      auto noted = after(other.call(::note, text("first")), [this, other](const Empty&) {
        write("noted");
        return other.call(::notes);
      });
      return after(std::move(noted), [this](const Text& notes) {
        write("read");
        return notes;
      });
    }
    return after(other.call(::notes), [this, how = how.text()](const Text& notes) -> Result<Text> {
      write(how);
      if (how == "error")
        return fail(Errc::unavailable, "not now");
      if (how == "throw")
        throw std::runtime_error("on purpose");
      return text(notes.text() + "for " + std::to_string(id().value()));
    });
  }

  /// Posts when it is let go, or asked to stop.
  void hold(const Empty&) {
    gate().pass([this] { return stop_requested(); });
    post([this] { left().stops_seen += stop_requested() ? 1 : 0; });
  }

  void post_beside(const Text& what) const {
    post([this, what] { const_cast<Poster*>(this)->write(what.text()); });
  }

private:
  void write(const std::string& what) {
    left().strangers += std::this_thread::get_id() == thread_ ? 0 : 1;
    notes_ += what + "; ";
  }

  std::thread::id thread_;
  std::string notes_;
  int ticks_ = 0;
};

Cluster with_posters() {
  left().dropped = 0;
  left().stops_seen = 0;
  auto types = std::make_shared<TypeRegistry>();
  define_actor<Poster>(poster, *types)
      .method(note, &Poster::note)
      .method(post_note, &Poster::post_note)
      .method(notes, &Poster::notes)
      .method(post_throw, &Poster::post_throw)
      .method(tick, &Poster::tick)
      .method(leave_later, &Poster::leave_later)
      .method(post_endless, &Poster::post_endless)
      .method(ask_other, &Poster::ask_other)
      .method(hold, &Poster::hold)
      .method(go_on, &Poster::go_on)
      .concurrent_method(post_beside, &Poster::post_beside);
  EmbedOptions options;
  options.registry = types;
  return must(Cluster::embed(std::move(options)));
}

/// Returns why the last actor has ended, as far as the broker knows.
std::string why_ended(Cluster& cluster) {
  const auto state = must(cluster.state(StateOptions{.ended = 1}));
  return state.ended_size() == 0 ? std::string{} : state.ended(0).reason();
}

} // namespace

TEST_CASE("what an actor posts runs on its thread, behind the calls that have come", "[cluster]") {
  auto cluster = with_posters();
  auto actor = must(cluster.spawn(poster));
  gate().close();
  auto holding = actor.call(hold);
  auto posting = actor.call(post_note, text("posted"));
  auto noting = actor.call(note, text("came before"));
  gate().await(1);
  gate().open();
  REQUIRE(noting.get().has_value());
  CHECK(eventually(
      [&] { return must(actor.call(notes).get()).text() == "constructed; before posted; came before; posted; "; }));
}

TEST_CASE("what is posted does not see that the call before it was to stop", "[cluster]") {
  auto cluster = with_posters();
  auto actor = must(cluster.spawn(poster));
  gate().close();
  auto held = actor.call(hold);
  gate().await(1);
  held.cancel();
  // What it posts runs between these two.
  REQUIRE(actor.call(notes).get().has_value());
  REQUIRE(actor.call(notes).get().has_value());
  CHECK(left().stops_seen == 0);
}

TEST_CASE("an exception of what was posted ends the actor, which says why and restarts", "[cluster]") {
  auto cluster = with_posters();
  auto actor = must(cluster.spawn(poster, {}, {.name = "p", .max_restarts = 1}));
  REQUIRE(actor.call(note, text("old")).get().has_value());
  gate().close();
  auto holding = actor.call(hold);
  auto posting = actor.call(post_throw, text("no reason"));
  gate().open();
  REQUIRE(posting.get().has_value());
  CHECK(eventually([&] {
    const auto now = actor.call(notes).get();
    return now && now->text() == "constructed; ";
  }));
  REQUIRE(actor.call(post_throw, text("last reason")).get().has_value());
  CHECK(eventually([&] {
    return why_ended(cluster).ends_with(
        "a function that actor p (poster) on node local has posted threw an exception: last reason");
  }));
}

TEST_CASE("a function that posts itself again after a while is a timer", "[cluster]") {
  auto cluster = with_posters();
  auto actor = must(cluster.spawn(poster));
  REQUIRE(actor.call(tick).get().has_value());
  CHECK(eventually([&] { return must(actor.call(notes).get()).text() == "constructed; ticked; "; }));
}

TEST_CASE("an actor ends itself in what it has posted", "[cluster]") {
  auto cluster = with_posters();
  auto actor = must(cluster.spawn(poster, {}, {.max_restarts = 5}));
  REQUIRE(actor.call(leave_later).get().has_value());
  CHECK(eventually([&] { return why_ended(cluster).ends_with("the actor has ended itself: it was posted"); }));
}

TEST_CASE("functions that have not run are destroyed before their actor, and none is taken after it", "[cluster]") {
  auto cluster = with_posters();
  auto actor = must(cluster.spawn(poster));
  REQUIRE(actor.call(post_endless).get().has_value());
  CHECK(left().dropped == 0);
  REQUIRE(cluster.kill(actor).has_value());
  CHECK(eventually([] { return left().dropped == 2; }));
  CHECK(left().dropped_at_end == 1);
  bool ran = false;
  CHECK_FALSE(left().thread->post([&] { ran = true; }));
  CHECK_FALSE(left().thread->post_after(1h, [&] { ran = true; }));
  CHECK_FALSE(ran);
}

TEST_CASE("a callback and a concurrent method go on on their actor's thread", "[cluster]") {
  auto cluster = with_posters();
  auto other = must(cluster.spawn(poster, {}, {.name = "other"}));
  auto actor = must(cluster.spawn(poster));
  REQUIRE(actor.call(ask_other).get().has_value());
  CHECK(eventually([&] { return must(actor.call(notes).get()).text() == "constructed; other: constructed; ; "; }));
  REQUIRE(actor.call(post_beside, text("beside")).get().has_value());
  CHECK(eventually([&] { return must(actor.call(notes).get()).text().ends_with("beside; "); }));
  CHECK(left().strangers == 0);
}

TEST_CASE("an actor goes on on its thread with what others have answered, and answers then", "[cluster]") {
  auto cluster = with_posters();
  auto other = must(cluster.spawn(poster, {}, {.name = "other"}));
  auto actor = must(cluster.spawn(poster));
  const auto id = std::to_string(actor.id().value());
  CHECK(must(actor.call(go_on, text("asked")).get()).text() == "constructed; for " + id);
  CHECK(must(actor.call(go_on, text("more")).get()).text() == "constructed; first; ");
  CHECK(actor.call(go_on, text("error")).get().error() == Error{Errc::unavailable, "not now"});
  // It ends the call, not the actor.
  CHECK(fails(actor.call(go_on, text("throw")).get().error(), Errc::task_failed, "on purpose"));
  CHECK(actor.call(go_on, text("nobody")).get().error().code() == Errc::not_found);
  CHECK(must(actor.call(notes).get()).text() == "constructed; asked; noted; read; error; throw; ");
  CHECK(left().strangers == 0);
}

TEST_CASE("what was to go on on the thread of an actor that has ended says so", "[cluster]") {
  auto cluster = with_posters();
  auto actor = must(cluster.spawn(poster));
  Promise<int> promise;
  bool ran = false;
  const auto note = [&](int) { ran = true; };
  auto early = left().thread->after(promise.future(), note);
  REQUIRE(cluster.kill(actor).has_value());
  auto late = left().thread->after(Future<int>::ready_with(1), note);
  CHECK(late.get().error().code() == Errc::actor_died);
  promise.set(1);
  CHECK(early.get().error().code() == Errc::actor_died);
  CHECK_FALSE(ran);
  // Whoever cancels it reaches the work before it.
  Promise<int> other;
  auto cancelled = left().thread->after(other.future(), note);
  cancelled.cancel();
  CHECK(other.cancelled());
}

TEST_CASE("a step that was withdrawn before its turn does not run, and work that it has started is withdrawn",
          "[cluster]") {
  auto cluster = with_posters();
  auto actor = must(cluster.spawn(poster));
  gate().close();
  auto holding = actor.call(hold);
  gate().await(1);
  bool ran = false;
  auto step = left().thread->after(Future<int>::ready_with(1), [&](int) { ran = true; });
  step.cancel();
  CHECK(step.get().error().code() == Errc::cancelled);
  gate().open();
  must(holding.get());
  must(actor.call(notes).get());
  CHECK_FALSE(ran);
  Promise<int> more;
  auto going = left().thread->after(Future<int>::ready_with(1), [&](int) { return more.future(); });
  must(actor.call(notes).get());
  going.cancel();
  CHECK(eventually([&] { return more.cancelled(); }));
}
