#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/files.hpp>
#include <gpuactors/base/random_id.hpp>
#include <gpuactors/base/revisions.hpp>
#include <gpuactors/base/version.hpp>
#include <gpuactors/broker/state_store.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <chrono>
#include <thread>

namespace gpuactors {

namespace {

namespace fs = std::filesystem;

// "gpua": SQLite's application id, which tells our files from those of other programs.
constexpr std::int64_t application = 0x67707561;

// How long a starting broker waits for an ending one to unlock the file, and the longest pause between two tries.
constexpr std::chrono::milliseconds patience{500};
constexpr std::chrono::milliseconds longest_pause{10};

struct CloseDatabase {
  void operator()(sqlite3* database) const noexcept {
    ::sqlite3_close_v2(database);
  }
};

struct EndStatement {
  void operator()(sqlite3_stmt* statement) const noexcept {
    ::sqlite3_finalize(statement);
  }
};

using Statement = std::unique_ptr<sqlite3_stmt, EndStatement>;

std::string column_bytes(sqlite3_stmt* row, int column) {
  const auto* bytes = static_cast<const char*>(::sqlite3_column_blob(row, column));
  const auto size = static_cast<std::size_t>(::sqlite3_column_bytes(row, column));
  return bytes == nullptr ? std::string{} : std::string{bytes, size};
}

// Bound texts and bytes must outlive the statement's run: SQLITE_STATIC copies nothing.

bool bind_text(sqlite3_stmt* statement, int index, std::string_view text) {
  return ::sqlite3_bind_text64(statement, index, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8) == SQLITE_OK;
}

bool bind_key(sqlite3_stmt* statement, int index, const StateKey& key) {
  if (const auto* number = std::get_if<std::uint64_t>(&key))
    return ::sqlite3_bind_int64(statement, index, static_cast<std::int64_t>(*number)) == SQLITE_OK;
  return bind_text(statement, index, std::get<std::string>(key));
}

StateKey key_of(sqlite3_stmt* row, int column) {
  if (::sqlite3_column_type(row, column) == SQLITE_INTEGER)
    return static_cast<std::uint64_t>(::sqlite3_column_int64(row, column));
  return column_bytes(row, column);
}

/// Creates the file with mode 0600: SQLite would let everybody read it, and gives its companion files the same mode.
Result<void> make_file(const fs::path& path) {
  const detail::Descriptor file{::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  // An existing file must not be opened here: closing it again would drop the POSIX locks of this process on it.
  if (!file && errno == ENOENT)
    return fail(Errc::invalid_argument,
                fmt::format("{} cannot be made: its folder {} is missing", path.string(), path.parent_path().string()));
  if (!file && errno != EEXIST)
    return detail::fail_errno(path, "made");
  return {};
}

} // namespace

// -- SQLite --------------------------------------------------------------------

class StateStore::Database {
public:
  /// Opens the file, locks it for this process, and checks its contents or creates the tables. Of several processes
  /// that do so at once, one gets the file.
  static Result<std::unique_ptr<Database>> open(const fs::path& path) {
    // SQLite waits with the locks that it has by then, so that two who wait would be in each other's way to the end.
    const auto until = Clock::now() + patience;
    for (;;) {
      auto opened = try_to_open(path);
      if (opened || opened.error().code() != Errc::already_exists || Clock::now() >= until)
        return opened;
      // Of different lengths, so that those who have met do not meet again.
      const auto pause = std::chrono::microseconds{longest_pause}.count();
      std::this_thread::sleep_for(std::chrono::microseconds{random_id() % static_cast<std::uint64_t>(pause)});
    }
  }

  /// Opens it without waiting for who has it.
  static Result<std::unique_ptr<Database>> try_to_open(const fs::path& path) {
    auto result = std::make_unique<Database>();
    result->path_ = path;
    sqlite3* connection = nullptr;
    constexpr int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    const int opened = ::sqlite3_open_v2(path.c_str(), &connection, flags, nullptr);
    result->connection_.reset(connection);
    if (opened != SQLITE_OK)
      return result->fail_now("opened");
    // The locking mode keeps the lock as long as the connection, and the kernel drops it with the process.
    GPUACTORS_TRY(result->run("PRAGMA locking_mode = EXCLUSIVE"));
    GPUACTORS_TRY(result->run("BEGIN EXCLUSIVE"));
    GPUACTORS_TRY(result->check_or_fill());
    GPUACTORS_TRY(result->run("COMMIT"));
    GPUACTORS_TRY(result->use_log());
    return result;
  }

  [[nodiscard]] Result<Statement> prepare(std::string_view sql) const {
    sqlite3_stmt* statement = nullptr;
    if (::sqlite3_prepare_v2(connection_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr)
        != SQLITE_OK)
      return fail_now("read");
    return Statement{statement};
  }

  /// Runs a statement without parameters. @returns the first column of its last row, "" without rows.
  Result<std::string> run(std::string_view sql) const {
    GPUACTORS_LET(statement, prepare(sql));
    std::string answer;
    int step = SQLITE_ROW;
    while ((step = ::sqlite3_step(statement.get())) == SQLITE_ROW)
      answer = column_bytes(statement.get(), 0);
    if (step != SQLITE_DONE)
      return fail_now("used");
    return answer;
  }

  Result<std::int64_t> number(std::string_view sql) const {
    GPUACTORS_LET(statement, prepare(sql));
    if (::sqlite3_step(statement.get()) != SQLITE_ROW)
      return fail_now("read");
    return ::sqlite3_column_int64(statement.get(), 0);
  }

  /// Runs `change` in its own transaction: all of it takes effect, or nothing.
  template <class Change>
  Result<void> transact(Change change) const {
    GPUACTORS_TRY(run("BEGIN IMMEDIATE"));
    auto done = change();
    if (done) {
      if (auto committed = run("COMMIT"); !committed)
        done = fail(committed.error());
    }
    if (!done && ::sqlite3_get_autocommit(connection_.get()) == 0)
      static_cast<void>(run("ROLLBACK"));
    return done;
  }

  /// Whether our path now names another file, or none: writes would be lost.
  [[nodiscard]] bool has_moved() const {
    int moved = 0;
    ::sqlite3_file_control(connection_.get(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    return moved != 0;
  }

  [[nodiscard]] const fs::path& path() const noexcept {
    return path_;
  }

  /// Translates SQLite's last error into ours.
  Failure fail_now(std::string_view what) const {
    const int code = ::sqlite3_errcode(connection_.get()) & 0xFF;
    const std::string text = ::sqlite3_errmsg(connection_.get());
    const int error = ::sqlite3_system_errno(connection_.get());
    switch (code) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return fail(Errc::already_exists,
                  fmt::format("{} is in use by another broker: stop that one, or name another file", path_.string()));
    case SQLITE_NOTADB:
      return fail(
          Errc::invalid_argument,
          fmt::format("{} is no state of a broker: name another file, or one that does not exist", path_.string()));
    case SQLITE_CORRUPT:
      return fail_damaged(text);
    default:
      break;
    }
    const bool passing = code == SQLITE_FULL || code == SQLITE_IOERR || code == SQLITE_NOMEM;
    return fail(passing ? Errc::unavailable : Errc::invalid_argument,
                fmt::format("{} cannot be {}: {}{}", path_.string(), what, text,
                            error == 0 ? "" : fmt::format(" ({})", detail::errno_text(error))));
  }

private:
  Failure fail_damaged(std::string_view what) const {
    return fail(Errc::invalid_argument,
                fmt::format("{0} is damaged: {1}; put a copy back, or move {0} and {0}-wal away to begin with nothing",
                            path_.string(), what));
  }

  Result<void> check_or_fill() const {
    GPUACTORS_LET(tables, number("SELECT count(*) FROM sqlite_master"));
    GPUACTORS_LET(owner, number("PRAGMA application_id"));
    GPUACTORS_LET(version, number("PRAGMA user_version"));
    if (tables == 0 && owner == 0 && version == 0)
      return fill();
    if (owner != application)
      return fail(Errc::invalid_argument,
                  fmt::format("{} is a database of another program: name another file, or one that does not exist",
                              path_.string()));
    if (version > state_revision)
      return fail(Errc::unsupported,
                  fmt::format("{} was written by a later release: its revision is {}, and release {} knows those up to "
                              "{}; use that release, put back the copy from before the upgrade, or name another file",
                              path_.string(), version, release, state_revision));
    GPUACTORS_LET(finding, run("PRAGMA quick_check(1)"));
    if (finding != "ok")
      return fail_damaged(finding);
    // From now on, no earlier release opens the file: it would drop what it does not know.
    if (version < state_revision)
      GPUACTORS_TRY(run(mark_revision()));
    return {};
  }

  static std::string mark_revision() {
    return fmt::format("PRAGMA user_version = {}", state_revision);
  }

  Result<void> fill() const {
    for (const auto& sql : {std::string{"CREATE TABLE state (section TEXT NOT NULL, key NOT NULL, value BLOB NOT NULL, "
                                        "PRIMARY KEY (section, key)) WITHOUT ROWID"},
                            std::string{"CREATE TABLE incarnation (number INTEGER NOT NULL)"},
                            std::string{"INSERT INTO incarnation VALUES (0)"},
                            fmt::format("PRAGMA application_id = {}", application), mark_revision()})
      GPUACTORS_TRY(run(sql));
    return {};
  }

  Result<void> use_log() const {
    GPUACTORS_LET(mode, run("PRAGMA journal_mode = WAL"));
    if (mode != "wal")
      return fail(Errc::invalid_argument,
                  fmt::format("{} cannot have a write-ahead log (its journal mode is {}): name a file on a local disk",
                              path_.string(), mode));
    return {};
  }

  fs::path path_;
  std::unique_ptr<sqlite3, CloseDatabase> connection_;
};

// -- store ---------------------------------------------------------------------

Result<std::unique_ptr<StateStore>> StateStore::open(const fs::path& path) {
  if (path.empty())
    return fail(Errc::invalid_argument, "a broker's state needs a file: its name is empty");
  std::error_code error;
  const auto absolute = fs::absolute(path, error); // SQLite gives some relative names (":memory:") a special meaning
  if (error)
    return fail(Errc::invalid_argument, fmt::format("{} cannot be opened: {}", path.string(), error.message()));
  GPUACTORS_TRY(make_file(absolute));
  GPUACTORS_LET(database, Database::open(absolute));
  std::unique_ptr<StateStore> store{new StateStore{std::move(database)}};
  const auto& base = *store->database_;
  // The incarnation must be on disk before anyone sees it, so that it is never issued twice.
  GPUACTORS_TRY(base.run("PRAGMA synchronous = FULL"));
  GPUACTORS_TRY(base.transact([&]() -> Result<void> {
    GPUACTORS_TRY(base.run("UPDATE incarnation SET number = number + 1"));
    GPUACTORS_LET(number, base.number("SELECT number FROM incarnation"));
    store->incarnation_ = static_cast<std::uint64_t>(number);
    return {};
  }));
  // A commit goes to the write-ahead log in the kernel's page cache and thus survives kill -9. SQLite syncs the log
  // only at a checkpoint, every 1000 pages or so: a power loss may cost the commits since then. FULL would keep those,
  // but have each commit wait for the disk.
  GPUACTORS_TRY(base.run("PRAGMA synchronous = NORMAL"));
  return store;
}

StateStore::StateStore(std::unique_ptr<Database> database) : database_(std::move(database)) {
  // nop
}

StateStore::~StateStore() = default;

void StateStore::put(StateSection section, StateKey key, std::string value) {
  pending_.insert_or_assign({section, std::move(key)}, std::move(value));
}

void StateStore::erase(StateSection section, StateKey key) {
  pending_.insert_or_assign({section, std::move(key)}, std::nullopt);
}

Result<void> StateStore::commit() {
  if (pending_.empty())
    return {};
  if (database_->has_moved())
    return fail(Errc::invalid_argument,
                fmt::format("{} was removed or replaced while it was in use: put it back, or restart the broker",
                            database_->path().string()));
  GPUACTORS_TRY(database_->transact([&]() -> Result<void> {
    GPUACTORS_LET(put, database_->prepare("INSERT OR REPLACE INTO state VALUES (?, ?, ?)"));
    GPUACTORS_LET(erase, database_->prepare("DELETE FROM state WHERE section = ? AND key = ?"));
    for (const auto& [place, value] : pending_) {
      auto* const statement = (value ? put : erase).get();
      ::sqlite3_reset(statement);
      const bool bound =
          bind_text(statement, 1, to_string(place.first)) && bind_key(statement, 2, place.second)
          && (!value || ::sqlite3_bind_blob64(statement, 3, value->data(), value->size(), SQLITE_STATIC) == SQLITE_OK);
      if (!bound || ::sqlite3_step(statement) != SQLITE_DONE)
        return database_->fail_now("written");
    }
    return {};
  }));
  pending_.clear();
  return {};
}

Result<std::vector<StateEntry>> StateStore::load(StateSection section) const {
  GPUACTORS_LET(rows, database_->prepare("SELECT key, value FROM state WHERE section = ? ORDER BY key"));
  if (!bind_text(rows.get(), 1, to_string(section)))
    return database_->fail_now("read");
  std::vector<StateEntry> result;
  int step = SQLITE_ROW;
  while ((step = ::sqlite3_step(rows.get())) == SQLITE_ROW)
    result.push_back({key_of(rows.get(), 0), column_bytes(rows.get(), 1)});
  if (step != SQLITE_DONE)
    return database_->fail_now("read");
  return result;
}

} // namespace gpuactors
