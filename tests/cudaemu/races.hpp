/* races: launchers of races.cu. */
#ifndef TESTS_CUDAEMU_RACES_HPP
#define TESTS_CUDAEMU_RACES_HPP

extern const char *const race_names[]; /* nullptr at the end */
void race_launch(int which, float *out, int bug);
void stride_launch(float *out, int bug);

#endif
