#include <gpuactors/base/files.hpp>
#include <gpuactors/base/revisions.hpp>
#include <gpuactors/base/version.hpp>
#include <gpuactors/broker/state_store.hpp>

#include <support/catch.hpp>
#include <support/temporary_folder.hpp>

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>

using namespace gpuactors;
using namespace gpuactors::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace fs = std::filesystem;

namespace {

using Entries = std::vector<StateEntry>;
using Section = StateSection;

StateKey number(std::uint64_t value) {
  return value;
}

StateKey name(std::string value) {
  return value;
}

struct StateFixture {
  TemporaryFolder folder;
  fs::path path = folder / "state.db";
  std::unique_ptr<StateStore> store;

  void open() {
    store.reset();
    auto result = StateStore::open(path);
    INFO((result ? "" : to_string(result.error())));
    REQUIRE(result.has_value());
    store = std::move(*result);
  }

  void commit() {
    const auto result = store->commit();
    INFO((result ? "" : to_string(result.error())));
    REQUIRE(result.has_value());
  }

  Entries load(Section section) const {
    const auto result = store->load(section);
    REQUIRE(result.has_value());
    return *result;
  }

  std::string why_not(Errc code) const {
    const auto result = StateStore::open(path);
    REQUIRE_FALSE(result.has_value());
    CHECK(to_string(result.error().code()) == to_string(code));
    return result.error().message();
  }

  void run_sql(const std::string& sql) const {
    sqlite3* database = nullptr;
    REQUIRE(::sqlite3_open(path.c_str(), &database) == SQLITE_OK);
    CHECK(::sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
    ::sqlite3_close(database);
  }

  /// The revision that the file says it has.
  int revision() const {
    sqlite3* database = nullptr;
    sqlite3_stmt* statement = nullptr;
    REQUIRE(::sqlite3_open(path.c_str(), &database) == SQLITE_OK);
    REQUIRE(::sqlite3_prepare_v2(database, "PRAGMA user_version", -1, &statement, nullptr) == SQLITE_OK);
    REQUIRE(::sqlite3_step(statement) == SQLITE_ROW);
    const auto version = ::sqlite3_column_int(statement, 0);
    ::sqlite3_finalize(statement);
    ::sqlite3_close(database);
    return version;
  }
};

/// A child process that runs `work` with the writing end of a pipe, and then waits to be killed.
class Child {
public:
  template <class Work>
  explicit Child(Work work) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      work(ends[1]);
      while (true)
        ::pause();
    }
    ::close(ends[1]);
    pipe_ = detail::Descriptor{ends[0]};
  }

  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  ~Child() {
    kill();
  }

  void kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    pid_ = 0;
  }

  /// The next number that it wrote; nothing at the end.
  std::optional<std::uint64_t> next() {
    std::uint64_t value = 0;
    if (::read(pipe_.get(), &value, sizeof value) != sizeof value)
      return {};
    return value;
  }

private:
  pid_t pid_ = 0;
  detail::Descriptor pipe_;
};

void tell(int pipe, std::uint64_t value) {
  [[maybe_unused]] const auto result = ::write(pipe, &value, sizeof value);
}

/// Commits 1, 2, 3, ... until it is killed: each as an actor and, in the same commit, as a group.
void write_without_end(const fs::path& path, int pipe) {
  auto store = StateStore::open(path);
  if (!store)
    return;
  const auto before = (*store)->load(Section::actors);
  for (std::uint64_t i = before->size() + 1;; ++i) {
    (*store)->put(Section::actors, i, fmt::format("actor {}", i));
    (*store)->put(Section::groups, fmt::format("group {:08}", i), std::string(i % 3'000, 'x'));
    if (!(*store)->commit())
      return;
    tell(pipe, i);
  }
}

} // namespace

// -- keeping --------------------------------------------------------------------------------------

TEST_CASE_METHOD(StateFixture, "what is committed is there again, by section and key") {
  open();
  CHECK(load(Section::actors).empty());
  const std::string bytes("a\0\xFF\n", 4);
  store->put(Section::actors, number(7), bytes);
  store->put(Section::actors, name("7"), "");
  store->put(Section::actors, name(std::string("b\0c", 3)), "by name");
  store->put(Section::groups, number(7), "a group");
  store->put(Section::nodes, number(UINT64_MAX), "the last");
  CHECK(load(Section::actors).empty()); // not yet
  commit();
  const Entries actors{{number(7), bytes}, {name("7"), ""}, {name(std::string("b\0c", 3)), "by name"}};
  CHECK(load(Section::actors) == actors);
  open();
  CHECK(load(Section::actors) == actors);
  CHECK(load(Section::groups) == Entries{{number(7), "a group"}});
  CHECK(load(Section::nodes) == Entries{{number(UINT64_MAX), "the last"}});
  CHECK((fs::status(path).permissions() & fs::perms{077}) == fs::perms::none);
}

TEST_CASE_METHOD(StateFixture, "the last word before a commit counts") {
  open();
  store->put(Section::actors, number(1), "a");
  store->put(Section::actors, number(1), "b");
  store->put(Section::actors, number(2), "c");
  store->erase(Section::actors, number(2));
  store->erase(Section::actors, number(3));
  store->put(Section::actors, number(3), "d");
  store->erase(Section::actors, number(4));
  commit();
  CHECK(load(Section::actors) == Entries{{number(1), "b"}, {number(3), "d"}});
  store->erase(Section::actors, number(1));
  store->put(Section::actors, number(3), "e");
  commit();
  commit();
  store->put(Section::actors, number(9), "dropped");
  open();
  CHECK(load(Section::actors) == Entries{{number(3), "e"}});
}

TEST_CASE_METHOD(StateFixture, "each opening has a number of its own") {
  for (std::uint64_t i = 1; i <= 3; ++i) {
    open();
    CHECK(store->incarnation() == i);
  }
  store.reset();
  Child child{[&](int pipe) {
    const auto mine = StateStore::open(path);
    tell(pipe, mine ? (*mine)->incarnation() : 0);
    ::pause();
  }};
  CHECK(child.next() == 4);
  child.kill();
  open();
  CHECK(store->incarnation() == 5);
}

// -- being killed ---------------------------------------------------------------------------------

TEST_CASE_METHOD(StateFixture, "a process that is killed while it writes loses nothing that was committed") {
  std::uint64_t last = 0;
  for (int round = 1; round <= 10; ++round) {
    Child child{[&](int pipe) { write_without_end(path, pipe); }};
    const auto enough = last + static_cast<std::uint64_t>(40 * round);
    while (last < enough) {
      const auto told = child.next();
      REQUIRE(told == last + 1);
      last = *told;
    }
    child.kill();
    while (const auto told = child.next())
      last = *told;
    open();
    CHECK(store->incarnation() == static_cast<std::uint64_t>(2 * round));
    const auto actors = load(Section::actors);
    const auto groups = load(Section::groups);
    store.reset();
    // The last commit may have been made and not told.
    REQUIRE((actors.size() == last || actors.size() == last + 1));
    REQUIRE(groups.size() == actors.size());
    for (std::uint64_t i = 1; i <= actors.size(); ++i) {
      REQUIRE(actors[i - 1] == StateEntry{number(i), fmt::format("actor {}", i)});
      REQUIRE(groups[i - 1].value.size() == i % 3'000);
    }
    last = actors.size();
  }
}

TEST_CASE_METHOD(StateFixture, "a log that a power loss has cut short gives what an earlier commit left") {
  {
    Child child{[&](int pipe) { write_without_end(path, pipe); }};
    while (child.next().value_or(50) < 50)
      continue;
  }
  const fs::path log = path.string() + "-wal";
  const auto size = fs::file_size(log);
  const auto whole = path;
  std::size_t before = 0;
  for (int part = 0; part <= 20; ++part) {
    path = folder / fmt::format("cut-{}.db", part);
    fs::copy_file(whole, path);
    fs::copy_file(log, path.string() + "-wal");
    fs::resize_file(path.string() + "-wal", size * static_cast<std::uintmax_t>(part) / 20);
    open();
    const auto count = load(Section::actors).size();
    CHECK(load(Section::groups).size() == count);
    CHECK(count >= before);
    before = count;
  }
  CHECK(before >= 50);
}

// -- others ---------------------------------------------------------------------------------------

TEST_CASE_METHOD(StateFixture, "a second broker is refused as long as the first one lives") {
  int gate[2];
  REQUIRE(::pipe(gate) == 0);
  // Forked before this process has the file: SQLite's memory of that would come along.
  Child late{[&](int pipe) {
    char opened = 0;
    if (::read(gate[0], &opened, 1) == 1)
      tell(pipe, StateStore::open(path) ? 1 : 0);
  }};
  open();
  CHECK(why_not(Errc::already_exists)
        == path.string() + " is in use by another broker: stop that one, or name another file");
  store.reset();
  Child child{[&](int pipe) {
    const auto mine = StateStore::open(path);
    tell(pipe, 1);
    ::pause();
  }};
  REQUIRE(child.next());
  CHECK_THAT(why_not(Errc::already_exists), Contains("is in use by another broker"));
  child.kill();
  open();
  // Neither refusal has cost the lock.
  store->put(Section::nodes, name("node1"), "x");
  commit();
  CHECK(::write(gate[1], "x", 1) == 1);
  CHECK(late.next() == 0);
  ::close(gate[0]);
  ::close(gate[1]);
}

TEST_CASE_METHOD(StateFixture, "of several that open a new file at once, one gets it") {
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 6; ++i)
    children.push_back(std::make_unique<Child>([&](int pipe) {
      const auto mine = StateStore::open(path);
      tell(pipe, mine ? 1 : 0);
      ::pause();
    }));
  std::uint64_t got = 0;
  for (auto& child : children)
    got += child->next().value_or(100);
  CHECK(got == 1);
}

// -- files that will not do -----------------------------------------------------------------------

TEST_CASE_METHOD(StateFixture, "a file of a later revision is refused and stays as it is", "[releases]") {
  open();
  store->put(Section::actors, number(1), "a");
  commit();
  store.reset();
  run_sql(fmt::format("PRAGMA user_version = {}", state_revision + 1));
  CHECK(
      why_not(Errc::unsupported)
      == fmt::format("{} was written by a later release: its revision is {}, and release {} knows those up to {}; use "
                     "that release, put back the copy from before the upgrade, or name another file",
                     path.string(), state_revision + 1, release, state_revision));
  CHECK(revision() == state_revision + 1);
  run_sql(fmt::format("PRAGMA user_version = {}", state_revision));
  open();
  CHECK(load(Section::actors).size() == 1);
  CHECK(store->incarnation() == 2);
}

TEST_CASE_METHOD(StateFixture, "a file of an earlier revision is read, and earlier releases open it no more",
                 "[releases]") {
  open();
  store->put(Section::actors, number(1), "a");
  commit();
  store.reset();
  CHECK(revision() == state_revision);
  run_sql("PRAGMA user_version = 1");
  open();
  CHECK(load(Section::actors) == Entries{{number(1), "a"}});
  store.reset();
  CHECK(revision() == state_revision);
}

TEST_CASE_METHOD(StateFixture, "a file that is not this program's to use keeps its revision", "[releases]") {
  open();
  store.reset();
  run_sql("PRAGMA user_version = 1");
  // Another program has it.
  sqlite3* other = nullptr;
  REQUIRE(::sqlite3_open(path.c_str(), &other) == SQLITE_OK);
  CHECK(::sqlite3_exec(other, "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE", nullptr, nullptr, nullptr)
        == SQLITE_OK);
  CHECK_THAT(why_not(Errc::already_exists), Contains("is in use"));
  ::sqlite3_close(other);
  CHECK(revision() == 1);
}

TEST_CASE_METHOD(StateFixture, "files of others are refused and stay as they are") {
  run_sql("CREATE TABLE notes (text); INSERT INTO notes VALUES ('mine')");
  CHECK_THAT(why_not(Errc::invalid_argument), Contains("is a database of another program: name another file"));
  run_sql("INSERT INTO notes VALUES ('still mine')");
  path = folder / "text";
  const std::string text(5'000, 'x');
  std::ofstream{path} << text;
  CHECK_THAT(why_not(Errc::invalid_argument), Contains("is no state of a broker"));
  CHECK(fs::file_size(path) == text.size());
}

TEST_CASE_METHOD(StateFixture, "a damaged file is refused with what to do about it") {
  open();
  for (std::uint64_t i = 1; i <= 500; ++i)
    store->put(Section::actors, i, std::string(500, 'x'));
  commit();
  store.reset();
  const auto whole = path;
  const auto size = fs::file_size(whole);
  REQUIRE(size > 100'000);
  path = folder / "cut.db";
  fs::copy_file(whole, path);
  fs::resize_file(path, size / 2);
  CHECK_THAT(why_not(Errc::invalid_argument), StartsWith(path.string() + " is damaged: "));
  path = folder / "overwritten.db";
  fs::copy_file(whole, path);
  std::fstream file{path, std::ios::in | std::ios::out | std::ios::binary};
  file.seekp(static_cast<std::streamoff>(size / 2));
  file << std::string(20'000, '\x55');
  file.close();
  CHECK_THAT(
      why_not(Errc::invalid_argument),
      Contains(fmt::format("; put a copy back, or move {0} and {0}-wal away to begin with nothing", path.string())));
}

TEST_CASE_METHOD(StateFixture, "a place where no file can be is refused") {
  const auto why = [](const fs::path& where) {
    const auto result = StateStore::open(where);
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().code() == Errc::invalid_argument);
    return result.error().message();
  };
  CHECK(why("") == "a broker's state needs a file: its name is empty");
  CHECK_THAT(why(folder / "none" / "state.db"), Contains("cannot be made: its folder "));
  CHECK_THAT(why(folder.path()), Contains("cannot be opened: unable to open database file"));
}

TEST_CASE_METHOD(StateFixture, "a file that is taken away is noticed, and may be put back") {
  open();
  store->put(Section::actors, number(1), "a");
  fs::rename(path, folder / "away");
  const auto lost = store->commit();
  REQUIRE_FALSE(lost.has_value());
  CHECK_THAT(lost.error().message(), Contains("was removed or replaced while it was in use"));
  fs::rename(folder / "away", path);
  commit();
  CHECK(load(Section::actors).size() == 1);
}

TEST_CASE_METHOD(StateFixture, "a commit that finds no room changes nothing and can be made again") {
  open();
  store->put(Section::actors, number(1), "a");
  commit();
  // A limit of the process stands in for the end of the disk.
  const auto handler = std::signal(SIGXFSZ, SIG_IGN); // NOLINT(cert-err33-c)
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit tight{200'000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &tight);
  store->put(Section::actors, number(2), std::string(300'000, 'x'));
  store->erase(Section::actors, number(1));
  const auto refused = store->commit();
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler); // NOLINT(cert-err33-c)
  REQUIRE_FALSE(refused.has_value());
  CHECK(to_string(refused.error().code()) == "unavailable");
  CHECK(load(Section::actors) == Entries{{number(1), "a"}});
  store->put(Section::actors, number(3), "c");
  commit();
  open();
  CHECK(load(Section::actors) == Entries{{number(2), std::string(300'000, 'x')}, {number(3), "c"}});
}
