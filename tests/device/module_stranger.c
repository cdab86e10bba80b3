/* A shared object that has nothing to do with espalier. */
extern const int stranger_number;
const int stranger_number = 3;
