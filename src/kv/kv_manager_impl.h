#pragma once
// Only for the files that implement KvManager.

#include "kv/kv_manager.h"
#include "kv/kv_state.h"

namespace quire {

struct KvManager::Impl : KvState {
  using KvState::KvState;
};

}  // namespace quire
