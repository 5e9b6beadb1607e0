# cmake -DNM=nm -DOBJECTS=a.o;b.o -P check_tier_symbols.cmake
# A source compiled for AVX may define one global symbol, its table. Anything else (an inline
# function of a shared header) could be the copy the linker keeps for the whole program, and would
# then crash a CPU without AVX.
set(checked 0)
foreach(object IN LISTS OBJECTS)
  if(NOT object MATCHES "kernels_avx[0-9]+\\.cc")
    continue()
  endif()
  math(EXPR checked "${checked} + 1")
  execute_process(COMMAND ${NM} -C --defined-only --extern-only ${object}
    OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "\n$" "" symbols "${symbols}")
  string(REPLACE "\n" ";" symbols "${symbols}")
  foreach(symbol IN LISTS symbols)
    if(NOT symbol MATCHES "quire::kAvx[0-9]+Kernels$|DW\\.ref\\.|__asan|__odr_asan|__ubsan")
      message(FATAL_ERROR "${object} defines ${symbol}")
    endif()
  endforeach()
endforeach()
if(checked EQUAL 0)
  message(FATAL_ERROR "no AVX object among ${OBJECTS}")
endif()
