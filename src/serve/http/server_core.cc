#include "serve/http/server_core.h"

#include <vector>

#include "serve/http/connection.h"

namespace quire::http {

void ServerCore::begin_answer() {
  const std::lock_guard lock(mutex_);
  ++answers_;
}

void ServerCore::end_answer() {
  const std::lock_guard lock(mutex_);
  if (--answers_ == 0) changed_.notify_all();
}

bool ServerCore::wait_for_answers(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return answers_ == 0; });
}

std::size_t ServerCore::answers() const {
  const std::lock_guard lock(mutex_);
  return answers_;
}

bool ServerCore::grow_body(std::size_t before, std::size_t after) {
  const std::lock_guard lock(mutex_);
  receiving_ -= before;
  if (receiving_ + after > options.limits.receiving_bytes) return false;
  receiving_ += after;
  return true;
}

void ServerCore::end_body(std::size_t n_bytes) {
  const std::lock_guard lock(mutex_);
  receiving_ -= n_bytes;
}

void ServerCore::add(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex_);
  connections_.emplace(connection.get(), connection);
}

void ServerCore::remove(const Connection* connection) {
  const std::lock_guard lock(mutex_);
  connections_.erase(connection);
  if (connections_.empty()) changed_.notify_all();
}

std::size_t ServerCore::connections() const {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

void ServerCore::stop_connections() {
  std::vector<std::shared_ptr<Connection>> open;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, connection] : connections_)
      if (auto alive = connection.lock()) open.push_back(std::move(alive));
  }
  for (const auto& connection : open) connection->stop();
}

void ServerCore::wait_for_connections() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return connections_.empty(); });
}

}  // namespace quire::http
